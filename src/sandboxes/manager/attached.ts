/** Streams that are open under a decision: looked after while they are, and ended when nothing allows them any more. */
import type { CraikError } from '../../errors.ts'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import { deniedOperation } from '../lifecycle/denied.ts'
import { carries, grantOf } from '../lifecycle/still-authorized.ts'
import { type Begun, recheck } from '../lifecycle/tokens.ts'
import type { ManagerOptions } from './options.ts'

/** By a timer of its own: a sandbox that is slow to answer must not put off the end of what was revoked. */
const LOOK_MS = 1_000

export interface AttachedStream {
  readonly begun: Begun
  readonly jobId?: JobId
  /** What it does, such as `output`. */
  readonly action: string
  end(denied: CraikError): void
}

export class AttachedStreams {
  readonly #options: ManagerOptions
  readonly #id: SandboxId
  readonly #streams = new Set<AttachedStream>()
  #timer: NodeJS.Timeout | undefined
  #looking = false

  constructor(options: ManagerOptions, id: SandboxId) {
    this.#options = options
    this.#id = id
  }

  /** Call what is returned when the stream has ended. */
  add(stream: AttachedStream): () => void {
    this.#streams.add(stream)
    this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref()
    return () => {
      this.#streams.delete(stream)
      if (this.#streams.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  /** For work that takes a stream in: its signal aborts when it may not go on, and then it fails with the denial. */
  async during<T>(
    stream: Omit<AttachedStream, 'end'>,
    until: AbortSignal,
    work: (until: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ending = new AbortController()
    const detach = this.add({ ...stream, end: (denied) => ending.abort(denied) })
    try {
      return await work(AbortSignal.any([until, ending.signal]))
    } catch (error) {
      throw ending.signal.aborted ? ending.signal.reason : error
    } finally {
      detach()
    }
  }

  /** One read, whatever there is; more only of what was revoked. */
  async #look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    try {
      for (const { begun, jobId, action } of await this.#doubtful()) {
        const denied = await this.#options.store.write(recheck, {
          id: this.#id,
          begin: begun.begin,
          jobId,
          action,
        })
        if (denied === undefined) continue
        const error = deniedOperation(denied)
        for (const stream of [...this.#streams]) if (stream.begun.id === begun.id) stream.end(error)
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      this.#options.logger('warn', `open streams could not be checked: ${why}`, { sandbox: this.#id })
    } finally {
      this.#looking = false
    }
  }

  /** One of each begin whose grant carries nothing any more. What needed no grant is not asked about again. */
  async #doubtful(): Promise<readonly AttachedStream[]> {
    const byBegin = new Map([...this.#streams].map((stream) => [stream.begun.id, stream]))
    const grants = new Set([...byBegin.values()].flatMap(({ begun }) => grantOf(begun.begin) ?? []))
    const nowMs = this.#options.clock.nowMs()
    const lasting = await this.#options.store.read(async (tables) => {
      const found = new Set<string>()
      for (const id of grants) if (await carries(tables, id, nowMs)) found.add(id)
      return found
    })
    return [...byBegin.values()].filter(({ begun }) => {
      const grantId = grantOf(begun.begin)
      return grantId !== undefined && !lasting.has(grantId)
    })
  }
}
