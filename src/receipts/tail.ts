/**
 * The newest part of the log that this process sealed or checked itself. New receipts build only on that. A checkpoint
 * over receipts that somebody changed in the database would confirm the change.
 */
import { CraikError } from '../errors.ts'
import type { LastReceipt, Tables } from '../store/store.ts'
import type { LogKeys } from './log-keys.ts'
import { treeRoot } from './tree.ts'
import { hmacOf, readReceipt } from './verifier/receipt-line.ts'
import { openNote, parseVkey } from './verifier/signed-notes.ts'

export interface Tail {
  /** `undefined` while the log is empty. */
  readonly head: LastReceipt | undefined
  /** The leaf hashes of receipts `from`, `from + 1` … up to the head. */
  readonly from: number
  readonly leaves: readonly Uint8Array[]
}

/** Returns the key of the home with this id. */
export type KeyRing = (kid: string) => LogKeys

const PAGE = 256

/**
 * Returns the tail after the newest checkpoint, or after `known`. Throws unless the home's keys sealed every receipt in
 * it.
 */
export async function readTail(tables: Tables, keys: KeyRing, known?: Tail): Promise<Tail> {
  const start = known ?? (await afterCheckpoint(tables, keys))
  const current = await tables.logKeys.current()
  const leaves = [...start.leaves]
  let { head } = start
  for (;;) {
    const next = start.from + leaves.length
    const rows = await tables.receipts.scan(next, PAGE)
    for (const row of rows) {
      const receipt = readReceipt(Buffer.from(row.line))
      const { seal, entry } = receipt
      const previous = head === undefined ? '0'.repeat(64) : Buffer.from(head.leaf).toString('hex')
      const isOurs =
        seal?.seq === row.seq &&
        row.seq === start.from + leaves.length &&
        seal.prev === previous &&
        Date.parse(seal.at) === row.atMs &&
        entry.leaf.equals(row.leaf) &&
        hmacOf(receipt, keys(seal.kid).macKey) === seal.hmac
      if (!isOurs || current === undefined) throw changedError(`receipt ${start.from + leaves.length}`)
      head = { seq: row.seq, leaf: entry.leaf, atMs: row.atMs, kid: current.kid }
      leaves.push(entry.leaf)
    }
    if (rows.length < PAGE) break
  }
  // A rotation does not change the head but names another key.
  return { from: start.from, leaves, head: head && current ? { ...head, kid: current.kid } : head }
}

/** Returns the tail's start: the home's newest checkpoint, whose root must match the stored tree. */
async function afterCheckpoint(tables: Tables, keys: KeyRing): Promise<Tail> {
  const checkpoint = await tables.tree.lastCheckpoint()
  if (checkpoint === undefined) return { head: undefined, from: 0, leaves: [] }
  const { size, root, note } = checkpoint
  const signers = (await tables.logKeys.list()).map(({ kid }) => parseVkey(keys(kid).vkey)!)
  const opened = openNote(note, signers)
  const [row] = await tables.receipts.scan(size - 1, 1)
  const isOurs =
    opened.ok &&
    opened.size === size &&
    opened.root.equals(root) &&
    opened.root.equals(await treeRoot(tables.tree, size)) &&
    row?.seq === size - 1
  if (!isOurs) throw changedError(`checkpoint ${size}`)
  const { kid } = (await tables.logKeys.current())!
  return { head: { seq: row.seq, leaf: row.leaf, atMs: row.atMs, kid }, from: size, leaves: [] }
}

function changedError(what: string): CraikError {
  return new CraikError(
    'tampered',
    `${what} was changed in the database: Craik adds nothing to a changed log`,
    {
      hint: 'find the change:  craik receipts verify',
    },
  )
}
