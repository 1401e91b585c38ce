/** Reads a stream of JSON values, one on each line. */
import type { IncomingMessage } from 'node:http'
import { StringDecoder } from 'node:string_decoder'
import { CraikError } from '../errors.ts'
import { responseChunks } from './transport.ts'

const MAX_LINE_CHARACTERS = 64 * 1024

export async function* jsonLines<T>(response: IncomingMessage): AsyncGenerator<T> {
  const decoder = new StringDecoder('utf8')
  let pending = ''
  for await (const chunk of responseChunks(response)) {
    const complete = (pending + decoder.write(chunk)).split('\n')
    pending = complete.pop()!
    if (pending.length > MAX_LINE_CHARACTERS)
      throw new CraikError('too_large', 'a line in the response of the supervisor is too long', {
        hint: 'see the log of the supervisor:  craik supervisor logs',
      })
    for (const line of complete) if (line !== '') yield JSON.parse(line) as T
  }
}
