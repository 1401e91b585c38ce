/** Counts what crosses into a sandbox and out of it, where it crosses, whatever anybody else writes down. */
import type { BoundaryCounts } from './boundary.ts'

/** A byte stream that knows how much went through it, as every socket does. */
export interface CountedStream {
  readonly bytesRead: number
  readonly bytesWritten: number
}

type Counted = 'jobs' | 'reads' | 'writes' | 'forwards' | 'looks' | 'signals' | 'connections'

/** Of jobs and uploads, so many are known again when they are asked for once more. */
const REMEMBERED = 4096

/**
 * Every call of a boundary is one operation and is counted when it is made, also when it fails. A job or an upload
 * that is asked for again under its id is still one. One counter may serve several boundaries, one after the other:
 * a sidecar that dials again goes on under the counts of before.
 */
export class BoundaryCounter {
  readonly #counts: Record<Counted, number> = {
    jobs: 0,
    reads: 0,
    writes: 0,
    forwards: 0,
    looks: 0,
    signals: 0,
    connections: 0,
  }
  readonly #known = new Set<string>()
  readonly #streams = new Set<CountedStream>()
  #bytesIn = 0
  #bytesOut = 0

  add(what: Counted): void {
    this.#counts[what]++
  }

  addOnce(what: Counted, id: string): void {
    const key = `${what} ${id}`
    if (this.#known.delete(key)) {
      this.#known.add(key)
      return
    }
    this.#known.add(key)
    if (this.#known.size > REMEMBERED) this.#known.delete(this.#known.values().next().value!)
    this.#counts[what]++
  }

  /** Counts the bytes of a stream until it is let go of, and keeps what it has counted. */
  watch(stream: CountedStream): () => void {
    this.#streams.add(stream)
    return () => {
      if (!this.#streams.delete(stream)) return
      this.#bytesIn += stream.bytesRead
      this.#bytesOut += stream.bytesWritten
    }
  }

  read(): BoundaryCounts {
    let bytesIn = this.#bytesIn
    let bytesOut = this.#bytesOut
    for (const stream of this.#streams) {
      bytesIn += stream.bytesRead
      bytesOut += stream.bytesWritten
    }
    return { ...this.#counts, bytesIn, bytesOut }
  }
}
