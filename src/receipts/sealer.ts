/** Seals receipts inside a transaction: sequence, hash link, HMAC; and signs checkpoints over the tree. */
import { createHmac, hash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { newId, type ReceiptId } from '../lib/ids.ts'
import { ownerState } from '../lib/owner.ts'
import type { Home } from '../store/home.ts'
import type { LogHead, LogKeyRow, Tables } from '../store/store.ts'
import { adoptNextKeys, type LogKeys, loadLogKeys, loadRetiredKeys, prepareNextKeys } from './keys.ts'
import { checkpointText, signNote } from './note.ts'
import { type PreparedReceipt, prepareReceipt } from './prepare.ts'
import type { ReceiptRef, ReceiptWriter } from './receipt-writer.ts'
import { CleanTexts } from './redaction/redact.ts'
import type { Receipt, ReceiptDraft } from './schema.ts'
import { completeNodes, treeRoot } from './tree.ts'

/** A clock that is corrected by less than this only makes time stand still for a moment. */
const CLOCK_TOLERANCE_MS = 5_000
const CHECKPOINT_EVERY = 256
const NO_PREVIOUS = '0'.repeat(64)

export class Sealer implements ReceiptWriter {
  readonly #home: Home
  readonly #clock: Clock
  /** The head as this thread left it. It may be out of date, but never ahead: what is undone gets new tables. */
  readonly #heads = new WeakMap<Tables, LogHead>()
  readonly #known = new CleanTexts()
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
    const remembered = this.#heads.get(tables)
    const ref = await this.#sealAfter(tables, remembered ?? (await tables.receipts.last()), prepared)
    if (ref !== undefined) return ref
    // Another process has appended since: sequence numbers have no gaps, so its receipt has the number of ours.
    this.#heads.delete(tables)
    if (remembered !== undefined) return this.seal(tables, prepared)
    throw new CraikError('conflict', 'the newest receipt changed inside a transaction')
  }

  /** Undefined when the number after `last` is taken. */
  async #sealAfter(
    tables: Tables,
    last: LogHead | undefined,
    { id, body, draft }: PreparedReceipt,
  ): Promise<ReceiptRef | undefined> {
    const keys =
      this.#keys !== undefined && last?.kid === this.#keys.kid
        ? this.#keys
        : await this.#keysOf(tables, last === undefined)
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
    this.#heads.set(tables, { seq, leaf, atMs, kid: keys.kid })
    if (draft.phase === 'begin') await this.#open(tables, id, draft)
    if (draft.phase === 'end' && !(await tables.openReceipts.remove(draft.begin_id!))) {
      throw new CraikError(
        'conflict',
        `receipt ${draft.begin_id} is not open: it never began, or it has ended`,
      )
    }
    if ((seq + 1) % CHECKPOINT_EVERY === 0) await this.checkpoint(tables)
    return { id, seq }
  }

  /** Signs the tree as it stands, unless that was done already. */
  async checkpoint(tables: Tables): Promise<void> {
    const last = await tables.receipts.last()
    const previous = await tables.tree.lastCheckpoint()
    if (last === undefined || previous?.size === last.seq + 1) return
    const size = last.seq + 1
    const keys = await this.#keysOf(tables, false)
    for (const node of await completeNodes(tables.tree, previous?.size ?? 0, size)) {
      await tables.tree.putNode(node.level, node.index, node.hash)
    }
    await tables.receipts.indexLinks(previous?.size ?? 0, size)
    const root = await treeRoot(tables.tree, size)
    const note = signNote(checkpointText(keys.origin, size, root), keys.origin, keys.signingKey)
    await tables.tree.putCheckpoint({ size, root, note, atMs: this.#clock.nowMs() })
  }

  /** Ends what a dead process left open. Its outcome is not known, and the receipt says so. */
  async closeDead(tables: Tables): Promise<void> {
    for (const { id, owner } of await tables.openReceipts.list()) {
      if (ownerState(owner) !== 'dead') continue
      const row = await tables.receipts.get(id)
      if (row === undefined) continue
      const { kind, operator, capability, operation, target, links } = (JSON.parse(row.line) as Receipt).body
      const same = {
        kind,
        operator,
        capability,
        links,
        ...(operation && { operation }),
        ...(target && { target }),
      }
      await this.append(tables, { ...same, phase: 'end', begin_id: id, status: 'indeterminate' })
    }
  }

  /** New keys from here on. The old key seals the receipt that names them and signs a checkpoint over it. */
  async rotate(tables: Tables, operator: string): Promise<ReceiptRef> {
    const current = await this.#keysOf(tables, (await tables.receipts.last()) === undefined)
    const next = prepareNextKeys(this.#home, current.origin)
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
    // The head that is remembered names the key before.
    this.#heads.delete(tables)
    return ref
  }

  async #open(tables: Tables, id: ReceiptId, draft: PreparedReceipt['draft']): Promise<void> {
    const { boot_id, pid, started_at, pid_namespace } = draft.owner!
    const owner = { bootId: boot_id, pid, startedAt: started_at, pidNamespace: pid_namespace }
    await tables.openReceipts.add({ id, owner })
  }

  /** The keys that the log is written with now. Another process may have rotated them since the last call. */
  async #keysOf(tables: Tables, empty: boolean): Promise<LogKeys> {
    let recorded = await tables.logKeys.current()
    if (recorded === undefined) recorded = await this.#adoptLog(tables, empty)
    if (this.#keys?.kid === recorded.kid) return this.#keys
    const keys = loadLogKeys(this.#home, false)
    this.#keys =
      keys.kid === recorded.kid
        ? keys
        : // Retired too early: new keys were adopted in a transaction that was not committed.
          (adoptNextKeys(this.#home, recorded.kid) ?? loadRetiredKeys(this.#home, recorded.kid))
    if (this.#keys !== undefined) return this.#keys
    throw new CraikError(
      'key_mismatch',
      `the log was written with key ${recorded.kid}, but secrets/log.key holds key ${keys.kid}`,
    )
  }

  async #adoptLog(tables: Tables, empty: boolean): Promise<LogKeyRow> {
    if (!empty) throw new CraikError('store_damaged', 'the log has receipts but no record of its key')
    const { kid, origin, vkey } = loadLogKeys(this.#home, true)
    const row = { kid, origin, vkey, fromSeq: 0 }
    await tables.logKeys.add(row)
    return row
  }

  #time(lastMs: number): number {
    const nowMs = this.#clock.nowMs()
    if (nowMs >= lastMs - CLOCK_TOLERANCE_MS) return Math.max(nowMs, lastMs)
    const now = new Date(nowMs).toISOString()
    const newest = new Date(lastMs).toISOString()
    throw new CraikError('clock_backwards', `the clock says ${now}, but the newest receipt is from ${newest}`)
  }
}
