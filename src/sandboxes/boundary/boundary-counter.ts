/**
 * Counts the operations and bytes that enter and leave a sandbox, at the boundary itself, independent of any other
 * record.
 */
import type { BoundaryCounts } from './boundary.ts'

/** A byte stream that counts its own bytes, as every socket does. */
export interface CountedStream {
  readonly bytesRead: number
  readonly bytesWritten: number
}

type Counted = 'jobs' | 'reads' | 'writes' | 'forwards' | 'looks' | 'signals' | 'connections'

/** The number of job and upload ids that the counter keeps, so that it does not count a repeated request twice. */
const MAX_KNOWN_IDS = 4096

/**
 * Every call of a boundary is one operation. It is counted when it is made, even if it fails. A job or an upload that
 * is requested again under its id does not count again. One counter may serve several boundaries in turn: after a
 * sidecar reconnects, the counts continue.
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
    if (this.#known.size > MAX_KNOWN_IDS) this.#known.delete(this.#known.values().next().value!)
    this.#counts[what]++
  }

  /** Counts the bytes of a stream until the returned function is called, and keeps the count. */
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
