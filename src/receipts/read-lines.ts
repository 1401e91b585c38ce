/** Splits a stream of bytes into lines of limited length. */
import { CraikError } from '../errors.ts'

/** Twice the longest line that a verifier accepts. */
const MAX_LINE_BYTES = 8 << 20

export async function* readLines(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let held: Buffer[] = []
  let bytes = 0
  for await (const chunk of source) {
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...held, chunk.subarray(start, end)]).toString()
      held = []
      bytes = 0
      start = end + 1
    }
    held.push(chunk.subarray(start))
    bytes += chunk.length - start
    if (bytes > MAX_LINE_BYTES)
      throw new CraikError('too_large', 'the file contains a line that is longer than any line of a log', {
        hint: 'use a file that  craik receipts export  wrote',
      })
  }
  if (bytes > 0) yield Buffer.concat(held).toString()
}
