/**
 * Exports the log as a file for an auditor: a header, the documents of the decisions, then receipts and checkpoints in
 * order.
 */
import { CraikError } from '../errors.ts'
import type { Tables } from '../store/store.ts'

const PAGE = 512

export async function* exportLines(tables: Tables): AsyncGenerator<string> {
  const last = await tables.receipts.last()
  const signed = await tables.tree.lastCheckpoint()
  const keys = await tables.logKeys.list()
  // The header states the size of the newest checkpoint, so that an auditor sees when receipts were cut off.
  const size = Math.max(last === undefined ? 0 : last.seq + 1, signed?.size ?? 0)
  if (size === 0)
    throw new CraikError('not_found', 'the log is empty: nothing to export', {
      hint: 'write a first receipt:  craik shell true',
    })
  if (keys.length === 0)
    throw new CraikError('store_damaged', 'the log has receipts but no record of its key')
  const { kid, origin, vkey } = keys[0]!
  yield JSON.stringify({ _craik: { format: 'craik.receipts.export', kid, origin, size, version: 1, vkey } })
  for (const { digest, mediaType, text } of await tables.documents.list()) {
    yield JSON.stringify({ _document: { digest, media_type: mediaType, text } })
  }
  yield* logLines(tables, size)
}

/**
 * Yields the receipts and, after the last receipt that a checkpoint covers, that checkpoint with the leaf hashes since
 * the previous one.
 */
async function* logLines(tables: Tables, size: number): AsyncGenerator<string> {
  let leaves: Uint8Array[] = []
  for (let from = 0; from < size; from += PAGE) {
    const rows = await tables.receipts.scan(from, PAGE)
    const notes = await tables.tree.checkpoints(from, from + PAGE)
    let next = 0
    for (const row of rows) {
      yield row.line
      leaves.push(row.leaf)
      const checkpoint = notes[next]
      if (checkpoint?.size !== row.seq + 1) continue
      next++
      yield JSON.stringify({
        _checkpoint: { leaves: Buffer.concat(leaves).toString('base64'), note: checkpoint.note },
      })
      leaves = []
    }
    if (rows.length < PAGE) break
  }
}
