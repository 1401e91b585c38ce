/**
 * The open watches, one for each path. After its last reader has disconnected, a watch stays open for a while, because
 * the reader may return.
 */
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../../lib/clock.ts'
import type { WatchEvent } from '../protocol.ts'
import { queryFlag, queryNumber, type RouteCall, SidecarError } from '../router.ts'
import { answerFor, pathOfQuery } from './request-path.ts'
import { Watch } from './watch.ts'

const MAX_WATCHES = 32
/** A supervisor takes less time to restart. */
const LINGER_MS = 60_000

interface Slot {
  readonly watch: Promise<Watch>
  readers: number
  linger: NodeJS.Timeout | undefined
}

export class Watches {
  readonly #workspace: string
  readonly #slots = new Map<string, Slot>()
  #seq: number

  /** Numbers begin with the time, so that those of an earlier run are not mistaken for this run's. */
  constructor(workspace: string, clock: Clock) {
    this.#workspace = workspace
    this.#seq = clock.nowMs() * 1000
  }

  async follow(call: RouteCall): Promise<void> {
    const path = pathOfQuery(call.query, this.#workspace)
    const recursive = queryFlag(call.query, 'recursive', false)
    const after = queryNumber(call.query, 'after', 0, Number.MAX_SAFE_INTEGER)
    const key = `${recursive ? 'r' : '-'}${path}`
    const slot = this.#enter(key, path, recursive)
    try {
      const watch = await slot.watch
      if (!call.respond(200)) return
      const events = watch.read(after === 0 ? undefined : after, call.signal)
      await pipeline(linesOf(events), call.stream, { signal: call.signal })
    } catch (error) {
      if (!call.signal.aborted) throw answerFor(error, path)
    } finally {
      this.#scheduleRemoval(key, slot)
    }
  }

  #enter(key: string, path: string, recursive: boolean): Slot {
    const known = this.#slots.get(key)
    if (known !== undefined) {
      clearTimeout(known.linger)
      known.readers++
      return known
    }
    if (this.#slots.size >= MAX_WATCHES) this.#dropOneUnread()
    if (this.#slots.size >= MAX_WATCHES)
      throw new SidecarError('busy', `${MAX_WATCHES} paths are already watched`)
    const slot: Slot = {
      watch: Watch.begin(path, recursive, () => ++this.#seq),
      readers: 1,
      linger: undefined,
    }
    this.#slots.set(key, slot)
    // A watch that has failed or ended is not used again.
    slot.watch.then(
      (watch) => void watch.whenEnded.then(() => this.#forget(key, slot)),
      () => this.#forget(key, slot),
    )
    return slot
  }

  #scheduleRemoval(key: string, slot: Slot): void {
    slot.readers--
    if (slot.readers > 0 || this.#slots.get(key) !== slot) return
    slot.linger = setTimeout(() => this.#close(key, slot), LINGER_MS).unref()
  }

  #dropOneUnread(): void {
    for (const [key, slot] of this.#slots)
      if (slot.readers === 0) {
        this.#close(key, slot)
        return
      }
  }

  #close(key: string, slot: Slot): void {
    this.#forget(key, slot)
    void slot.watch.then(
      (watch) => watch.close(),
      () => {},
    )
  }

  #forget(key: string, slot: Slot): void {
    clearTimeout(slot.linger)
    if (this.#slots.get(key) === slot) this.#slots.delete(key)
  }
}

async function* linesOf(batches: AsyncIterable<readonly WatchEvent[]>): AsyncGenerator<string> {
  for await (const batch of batches) yield batch.map((event) => `${JSON.stringify(event)}\n`).join('')
}
