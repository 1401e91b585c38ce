/** The uploads by the ids that the host chose, so that each can continue after a break. */
import { constants } from 'node:http2'
import { LIMITS, type Upload } from '../protocol.ts'
import { queryNumber, type RouteCall, SidecarError } from '../router.ts'
import { pathOfQuery } from './request-path.ts'
import { OpenUpload, type UploadPlan } from './upload.ts'

/** How many complete uploads are remembered, for a retry by a client that did not get the response. */
const MAX_COMMITTED = 256

interface Slot {
  readonly plan: UploadPlan
  /**
   * Another request for the same upload ends the one before it. That sender is gone, which the sidecar may not have
   * noticed yet.
   */
  stop: AbortController
  /** Settles, never rejects, when the request that holds the slot has finished. */
  free: Promise<void>
  idle: NodeJS.Timeout | undefined
  upload: OpenUpload | undefined
}

export class Uploads {
  readonly #workspace: string
  readonly #idleMs: number
  readonly #open = new Map<string, Slot>()
  readonly #committed = new Map<string, UploadPlan>()
  /** The greatest id that is complete and no longer remembered. Ids begin with a time, so a new one is greater. */
  #forgottenTo = ''

  /** Drops an upload that gets no request for `idleMs`. */
  constructor(workspace: string, idleMs: number) {
    this.#workspace = workspace
    this.#idleMs = idleMs
  }

  async write(call: RouteCall): Promise<void> {
    const plan = this.#planOf(call)
    const offset = queryNumber(call.query, 'offset', 0, Number.MAX_SAFE_INTEGER)
    const done = this.#committed.get(plan.id)
    if (done !== undefined) {
      requireSame(done, plan)
      call.answer(200, { offset: plan.size, committed: true } satisfies Upload)
      return
    }
    const slot = this.#slotFor(plan)
    const before = slot.free
    const stop = new AbortController()
    const { promise, resolve } = Promise.withResolvers<void>()
    clearTimeout(slot.idle)
    slot.stop.abort()
    slot.stop = stop
    slot.free = promise
    try {
      await before
      call.answer(200, await this.#continue(slot, offset, call, stop.signal))
    } finally {
      if (slot.stop === stop) slot.idle = setTimeout(() => void this.#forget(slot), this.#idleMs).unref()
      resolve()
    }
  }

  state(call: RouteCall): void {
    const id = idOf(call)
    const done = this.#committed.get(id)
    const slot = this.#open.get(id)
    if (done === undefined && slot === undefined) throw new SidecarError('not_found', `unknown upload: ${id}`)
    const state = slot?.upload?.state ?? { offset: done?.size ?? 0, committed: done !== undefined }
    call.answer(200, state satisfies Upload)
  }

  async #continue(slot: Slot, offset: number, call: RouteCall, stop: AbortSignal): Promise<Upload> {
    const { plan } = slot
    if (this.#committed.has(plan.id)) return { offset: plan.size, committed: true }
    if (stop.aborted || this.#open.get(plan.id) !== slot) throw takenOverError(plan)
    try {
      slot.upload ??= await OpenUpload.begin(plan)
      const known = slot.upload.state.offset
      if (offset > known)
        throw new SidecarError('conflict', `the upload ${plan.id} has only ${known} bytes, not ${offset}`)
      await slot.upload.write(offset, bodyOf(call, stop))
      if (stop.aborted) throw takenOverError(plan)
      await slot.upload.commitWhenWhole()
    } catch (error) {
      // After these errors, the bytes are kept for a retry. After any other error, they may fill the disk, or the upload
      // cannot succeed.
      const canRetry = error instanceof SidecarError && (error.code === 'conflict' || error.code === 'busy')
      if (!canRetry || slot.upload === undefined) await this.#forget(slot)
      throw error
    }
    const { state } = slot.upload
    if (state.committed) this.#remember(slot)
    return state
  }

  #slotFor(plan: UploadPlan): Slot {
    const known = this.#open.get(plan.id)
    if (known !== undefined) {
      requireSame(known.plan, plan)
      return known
    }
    if (plan.id <= this.#forgottenTo)
      throw new SidecarError('gone', `the upload ${plan.id} may be complete, and is no longer known`)
    if (this.#open.size >= LIMITS.uploads)
      throw new SidecarError('busy', `${LIMITS.uploads} uploads are already open`)
    const slot: Slot = {
      plan,
      stop: new AbortController(),
      free: Promise.resolve(),
      idle: undefined,
      upload: undefined,
    }
    this.#open.set(plan.id, slot)
    return slot
  }

  #remember(slot: Slot): void {
    this.#open.delete(slot.plan.id)
    this.#committed.set(slot.plan.id, slot.plan)
    for (const oldest of this.#committed.keys()) {
      if (this.#committed.size <= MAX_COMMITTED) break
      this.#committed.delete(oldest)
      if (oldest > this.#forgottenTo) this.#forgottenTo = oldest
    }
  }

  async #forget(slot: Slot): Promise<void> {
    if (this.#open.get(slot.plan.id) === slot) this.#open.delete(slot.plan.id)
    await slot.upload?.drop()
  }

  #planOf(call: RouteCall): UploadPlan {
    const size = queryNumber(call.query, 'size', Number.NaN, Number.MAX_SAFE_INTEGER)
    if (Number.isNaN(size)) throw new SidecarError('usage', 'the query parameter size is missing')
    return {
      id: idOf(call),
      path: pathOfQuery(call.query, this.#workspace),
      size,
      mode: queryNumber(call.query, 'mode', 0o644, 0o7777) & 0o777,
    }
  }
}

function idOf(call: RouteCall): string {
  const id = call.query.get('upload') ?? ''
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id
  throw new SidecarError('usage', 'upload must be an id of letters, digits, _ and -, at most 64')
}

function requireSame(known: UploadPlan, provided: UploadPlan): void {
  if (known.path === provided.path && known.size === provided.size && known.mode === provided.mode) return
  throw new SidecarError('conflict', `the upload ${provided.id} is for another path, size or mode`)
}

function takenOverError(plan: UploadPlan): SidecarError {
  return new SidecarError('conflict', `another request continues the upload ${plan.id}`)
}

/** A body that breaks off ends without an error: the bytes that arrived count, and the sender continues from there. */
async function* bodyOf(call: RouteCall, stop: AbortSignal): AsyncGenerator<Buffer> {
  const cancel = () => call.stream.close(constants.NGHTTP2_CANCEL)
  stop.addEventListener('abort', cancel, { once: true })
  const chunks = call.stream.iterator({ destroyOnReturn: false })
  try {
    for (;;) {
      const next = await chunks.next().catch(() => undefined)
      if (next === undefined || next.done === true || stop.aborted) return
      yield next.value as Buffer
    }
  } finally {
    stop.removeEventListener('abort', cancel)
    await chunks.return?.(undefined)
  }
}
