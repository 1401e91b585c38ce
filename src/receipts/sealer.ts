/** Seals receipts in a transaction (sequence number, hash link, HMAC) and signs checkpoints of the tree. */
import { createHmac, hash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { newId, type ReceiptId } from '../lib/ids.ts'
import { ownerState } from '../lib/owner.ts'
import type { Home } from '../store/home.ts'
import type { Tables } from '../store/store.ts'
import { type LogKeys, loadLogKeys, prepareFirstKeys, prepareNextKeys, settleFirstKeys } from './log-keys.ts'
import { checkpointText, signNote } from './note.ts'
import { type PreparedReceipt, prepareReceipt } from './prepare.ts'
import { endDraft } from './receipt-log.ts'
import type { ReceiptRef, ReceiptWriter } from './receipt-writer.ts'
import { fitsSeal, type RecordSealer, sealKeyId, sealRecord } from './record-seal.ts'
import { CleanJson } from './redaction/redact.ts'
import type { Receipt, ReceiptDraft } from './schema.ts'
import { readTail, type Tail } from './tail.ts'
import { completeNodes, type TreeReader, treeRoot } from './tree.ts'

/** If the clock moves back by less than this, the log repeats the last time until the clock catches up. */
const CLOCK_TOLERANCE_MS = 5_000
const CHECKPOINT_EVERY = 256
const NO_PREVIOUS = '0'.repeat(64)

export class Sealer implements ReceiptWriter, RecordSealer {
  readonly #home: Home
  readonly #clock: Clock
  /**
   * The newest part of the log, which this thread sealed or checked itself. After a rollback there is a new `Tables`
   * object.
   */
  readonly #tails = new WeakMap<Tables, Tail>()
  readonly #known = new CleanJson()
  #keys: LogKeys | undefined

  constructor(home: Home, clock: Clock) {
    this.#home = home
    this.#clock = clock
  }

  append(tables: Tables, draft: ReceiptDraft): Promise<ReceiptRef> {
    return this.seal(
      tables,
      prepareReceipt(newId<ReceiptId>('rcpt', this.#clock.nowMs()), draft, this.#known),
    )
  }

  async seal(tables: Tables, prepared: PreparedReceipt): Promise<ReceiptRef> {
    const known = this.#tails.get(tables)
    const tail = known ?? (await readTail(tables, this.#ring))
    const ref = await this.#sealAfter(tables, tail, prepared)
    if (ref !== undefined) return ref
    if (known === undefined)
      throw new CraikError(
        'conflict',
        'another process wrote a receipt at the same time; nothing was recorded',
        {
          hint: 'try again',
        },
      )
    // Another process appended a receipt: sequence numbers have no gaps, so its receipt has the number of this one.
    this.#tails.set(tables, await readTail(tables, this.#ring, known))
    return (await this.#sealAfter(tables, this.#tails.get(tables)!, prepared)) ?? this.seal(tables, prepared)
  }

  /** Returns `undefined` when the number after the tail's head is taken. */
  async #sealAfter(
    tables: Tables,
    tail: Tail,
    { id, body, draft }: PreparedReceipt,
  ): Promise<ReceiptRef | undefined> {
    const last = tail.head
    const keys = last === undefined ? await this.#firstKeys(tables) : this.#ring(last.kid)
    const seq = last === undefined ? 0 : last.seq + 1
    const atMs = this.#time(last?.atMs ?? 0)
    const prev = last === undefined ? NO_PREVIOUS : Buffer.from(last.leaf).toString('hex')
    const before = `{"body":${body},"seal":{"at":"${new Date(atMs).toISOString()}","kid":"${keys.kid}","prev":"${prev}",`
    const after = `"seq":${seq}}}`
    const mac = createHmac('sha256', keys.macKey)
      .update(before + after)
      .digest('hex')
    const line = `${before}"receipt_hmac":"${mac}",${after}`
    const leaf = hash('sha256', `\0${line}`, 'buffer')
    const isNext = await tables.receipts.insert({
      seq,
      id,
      kind: draft.kind,
      phase: draft.phase,
      status: draft.status ?? null,
      sessionId: draft.links.session_id ?? null,
      taskId: draft.links.task_id ?? null,
      runId: draft.links.run_id ?? null,
      handoffId: draft.links.handoff_id ?? null,
      policyEnvelopeId: draft.links.policy_envelope_id ?? null,
      beginId: draft.begin_id ?? null,
      atMs,
      leaf,
      line,
    })
    if (!isNext) return undefined
    const head = { seq, leaf, atMs, kid: keys.kid }
    // Leaves are only appended: the tail that this one continues ends at its own head.
    ;(tail.leaves as Uint8Array[]).push(leaf)
    this.#tails.set(tables, { head, from: tail.from, leaves: tail.leaves })
    if (draft.phase === 'begin') await this.#open(tables, id, draft)
    if (draft.phase === 'end' && !(await tables.openReceipts.remove(draft.begin_id!))) {
      throw new CraikError(
        'conflict',
        `receipt ${draft.begin_id} is not open: it never started, or it has ended`,
        { hint: `show the receipt:  craik receipts show ${draft.begin_id}` },
      )
    }
    if ((seq + 1) % CHECKPOINT_EVERY === 0) await this.checkpoint(tables)
    return { id, seq }
  }

  async sealRecord(tables: Tables, what: string, document: string): Promise<string> {
    const current = await tables.logKeys.current()
    if (current === undefined)
      throw new CraikError('internal', 'a record cannot be sealed before its first receipt')
    return sealRecord(this.#ring(current.kid), what, document)
  }

  checkRecord(what: string, document: string, seal: string): 'verified' | 'tampered' {
    const kid = sealKeyId(seal)
    return kid !== undefined && fitsSeal(this.#ring(kid), what, document, seal) ? 'verified' : 'tampered'
  }

  /** Signs the current tree, unless it is already signed. */
  async checkpoint(tables: Tables): Promise<void> {
    const last = await tables.receipts.last()
    const previous = await tables.tree.lastCheckpoint()
    const signed = previous?.size ?? 0
    if (last === undefined || signed === last.seq + 1) return
    const size = last.seq + 1
    const tail = await this.#tailFrom(tables, signed)
    const stored = await tables.tree.leaves(signed, size)
    const isOurs =
      tail.head?.seq === last.seq &&
      stored.length === size - signed &&
      stored.every((leaf, i) => Buffer.from(leaf).equals(tail.leaves[signed - tail.from + i]!))
    if (!isOurs)
      throw new CraikError('tampered', 'receipts were changed in the database: Craik does not sign them', {
        hint: 'find the change:  craik receipts verify',
      })
    const keys = this.#ring(tail.head.kid)
    // The leaves that were just checked are not read again.
    const tree: TreeReader = {
      leaves: (from, to) =>
        from < signed || to > size ? tables.tree.leaves(from, to) : stored.slice(from - signed, to - signed),
      node: (level, index) => tables.tree.node(level, index),
    }
    for (const node of await completeNodes(tree, signed, size)) {
      await tables.tree.putNode(node.level, node.index, node.hash)
    }
    await tables.receipts.indexLinks(signed, size)
    const root = await treeRoot(tree, size)
    const note = signNote(checkpointText(keys.origin, size, root), keys.origin, keys.signingKey)
    await tables.tree.putCheckpoint({ size, root, note, atMs: this.#clock.nowMs() })
    this.#tails.set(tables, { head: tail.head, from: size, leaves: [] })
  }

  /** The last step of a process: moves the keys of a new log into place and signs the end of the log. */
  async close(tables: Tables): Promise<void> {
    const recorded = await tables.logKeys.current()
    if (recorded !== undefined) settleFirstKeys(this.#home, recorded.kid)
    await this.checkpoint(tables)
  }

  /**
   * Ends the receipts that a dead process left open, with an unknown outcome. Work in a sandbox can still be running.
   * The next owner of that sandbox asks it first and then ends those receipts.
   */
  async closeDead(tables: Tables): Promise<void> {
    for (const { id, owner } of await tables.openReceipts.list()) {
      if (ownerState(owner) !== 'dead' || (await tables.sandboxes.holds(id))) continue
      const row = await tables.receipts.get(id)
      if (row === undefined) continue
      const { body } = JSON.parse(row.line) as Receipt
      await this.append(tables, endDraft(id, body, { status: 'indeterminate' }))
    }
  }

  /** Rotates the keys. The old key seals the receipt that names the new ones and signs a checkpoint over it. */
  async rotate(tables: Tables, operator: string): Promise<ReceiptRef> {
    const tail = this.#tails.get(tables) ?? (await readTail(tables, this.#ring))
    if (tail.head === undefined)
      throw new CraikError('not_found', 'the log is empty: it has no key to rotate', {
        hint: 'write a first receipt:  craik shell true',
      })
    const next = prepareNextKeys(this.#home, this.#ring(tail.head.kid).origin)
    const ref = await this.append(tables, {
      kind: 'environment_decision',
      phase: 'point',
      status: 'passed',
      operator,
      capability: 'receipts.rotate_key',
      links: {},
      key: { next_kid: next.kid, next_vkey: next.vkey },
    })
    await this.checkpoint(tables)
    await tables.logKeys.add({ kid: next.kid, origin: next.origin, vkey: next.vkey, fromSeq: ref.seq + 1 })
    // The cached head names the previous key.
    this.#tails.delete(tables)
    return ref
  }

  async #open(tables: Tables, id: ReceiptId, draft: PreparedReceipt['draft']): Promise<void> {
    const { boot_id, pid, started_at, pid_namespace } = draft.owner!
    const owner = { bootId: boot_id, pid, startedAt: started_at, pidNamespace: pid_namespace }
    await tables.openReceipts.add({ id, owner })
  }

  /** Returns the trusted tail up to the newest receipt, starting at `signed` or earlier. */
  async #tailFrom(tables: Tables, signed: number): Promise<Tail> {
    const known = this.#tails.get(tables)
    return readTail(tables, this.#ring, known !== undefined && known.from <= signed ? known : undefined)
  }

  async #firstKeys(tables: Tables): Promise<LogKeys> {
    if (
      (await tables.logKeys.current()) !== undefined ||
      (await tables.tree.lastCheckpoint()) !== undefined
    ) {
      throw new CraikError('tampered', 'the log has a key or a checkpoint, but its receipts were removed', {
        hint: 'restore state/craik.sqlite3 from a backup',
      })
    }
    const keys = prepareFirstKeys(this.#home)
    await tables.logKeys.add({ kid: keys.kid, origin: keys.origin, vkey: keys.vkey, fromSeq: 0 })
    this.#keys = keys
    return keys
  }

  /** Returns keys by their id. Another process can have rotated them since the last call. */
  readonly #ring = (kid: string): LogKeys => {
    if (this.#keys?.kid !== kid) this.#keys = loadLogKeys(this.#home, kid)
    return this.#keys
  }

  #time(lastMs: number): number {
    const nowMs = this.#clock.nowMs()
    if (nowMs >= lastMs - CLOCK_TOLERANCE_MS) return Math.max(nowMs, lastMs)
    const now = new Date(nowMs).toISOString()
    const newest = new Date(lastMs).toISOString()
    throw new CraikError(
      'clock_backwards',
      `cannot write a receipt: the clock (${now}) is behind the newest receipt (${newest})`,
    )
  }
}
