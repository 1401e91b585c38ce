/** Watches the open streams of a sandbox, and ends each one when no grant allows it. */
import type { CraikError } from '../../errors.ts'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { grantOf, isGrantValid } from '../lifecycle/still-authorized.ts'
import { type Begun, recheck } from '../lifecycle/tokens.ts'
import type { ManagerOptions } from './manager-options.ts'

/** The streams have their own timer: a slow sandbox must not delay the end of a revoked stream. */
const LOOK_MS = 1_000

export interface AttachedStream {
  readonly begun: Begun
  readonly jobId?: JobId
  /** The action of the stream, such as `output`. */
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

  /** Call the returned function when the stream has ended. */
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

  /**
   * Runs work that receives a stream. Its signal aborts when its grant is revoked, and the work fails with the denial.
   */
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

  /** Needs one read, however many streams there are, and a write only for each revoked one. */
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
        const error = deniedOperationError(denied)
        for (const stream of [...this.#streams]) if (stream.begun.id === begun.id) stream.end(error)
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      this.#options.logger('warn', `open streams could not be checked: ${why}`, { sandbox: this.#id })
    } finally {
      this.#looking = false
    }
  }

  /**
   * Returns one stream of each begin whose grant has become invalid. Streams that needed no grant are not checked
   * again.
   */
  async #doubtful(): Promise<readonly AttachedStream[]> {
    const byBegin = new Map([...this.#streams].map((stream) => [stream.begun.id, stream]))
    const grants = new Set([...byBegin.values()].flatMap(({ begun }) => grantOf(begun.begin) ?? []))
    const nowMs = this.#options.clock.nowMs()
    const lasting = await this.#options.store.read(async (tables) => {
      const found = new Set<string>()
      for (const id of grants) if (await isGrantValid(tables, id, nowMs)) found.add(id)
      return found
    })
    return [...byBegin.values()].filter(({ begun }) => {
      const grantId = grantOf(begun.begin)
      return grantId !== undefined && !lasting.has(grantId)
    })
  }
}
