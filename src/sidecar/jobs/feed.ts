/** Writes the body of one request to a job's input, until the body ends or another sender takes over. */
import type { ServerHttp2Stream } from 'node:http2'
import { SidecarError } from '../router.ts'
import type { Feeder, InputTurn } from './input-lock.ts'
import type { Job } from './job.ts'

/**
 * Resolves with the offset after the body's last byte. Rejects with `changed` when another sender has taken over. If
 * this request lost the turn, the error has the offset that arrived.
 */
export async function feedFrom(
  stream: ServerHttp2Stream,
  job: Job,
  offset: number,
  turn: InputTurn,
): Promise<number> {
  const body = new Body(stream, job, offset)
  if (!job.inputLock.begin(turn, body)) throw takenOverError(job)
  try {
    return await body.carry()
  } finally {
    job.inputLock.end(body)
    job.touch()
  }
}

class Body implements Feeder {
  readonly #stream: ServerHttp2Stream
  readonly #job: Job
  readonly #lost = Promise.withResolvers<void>()
  #offset: number
  /** The offset of the job's whole input when this request lost the turn. */
  #arrived: number | undefined
  #wake: () => void = () => {}

  constructor(stream: ServerHttp2Stream, job: Job, offset: number) {
    this.#stream = stream
    this.#job = job
    this.#offset = offset
  }

  onTakeOver(): void {
    // The bytes that wait here came before the other sender took over. They are not read while the program's input is
    // full, because memory has to stay bounded.
    const chunk: Buffer | null = this.#job.hasInputCapacity ? this.#stream.read() : null
    if (chunk !== null) this.#take(chunk).catch(() => {})
    this.#arrived = this.#job.inputOffset
    this.#lost.resolve()
  }

  /** Uses `read()` and no iterator. An iterator may hold a chunk that neither side counts when the turn is lost. */
  async carry(): Promise<number> {
    const wake = () => this.#wake()
    for (const event of EVENTS) this.#stream.on(event, wake)
    try {
      for (;;) {
        if (this.#arrived !== undefined) throw takenOverError(this.#job, this.#arrived)
        const chunk: Buffer | null = this.#stream.read()
        if (chunk === null) {
          if (this.#stream.readableEnded || this.#stream.destroyed) return this.#offset
          await Promise.race([this.#change(), this.#lost.promise])
          continue
        }
        await Promise.race([this.#take(chunk), this.#lost.promise])
      }
    } finally {
      for (const event of EVENTS) this.#stream.off(event, wake)
    }
  }

  #take(chunk: Buffer): Promise<void> {
    const offset = this.#offset
    this.#offset += chunk.length
    return this.#job.input(offset, chunk)
  }

  #change(): Promise<void> {
    return new Promise((done) => {
      this.#wake = done
    })
  }
}

const EVENTS = ['readable', 'end', 'close'] as const

function takenOverError(job: Job, offset?: number): SidecarError {
  return new SidecarError('changed', `another client now sends the input of ${job.id}`, {
    ...(offset !== undefined && { offset }),
  })
}
