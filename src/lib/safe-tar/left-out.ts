/** Records what is not packed and why, with counts and the first paths. */

export const LEFT_OUT_REASONS = [
  'socket',
  'fifo',
  'device',
  'unreadable',
  'name is not UTF-8',
  'name is too long',
  'too deep',
  'gone',
  'link to nothing',
  'a link or file is in the way',
] as const

export type LeftOutReason = (typeof LEFT_OUT_REASONS)[number]

export interface LeftOutReport {
  /** The first hundred. `skippedCount` counts all. */
  readonly skipped: readonly { readonly path: string; readonly reason: LeftOutReason }[]
  readonly skippedCount: number
  /** The counts of all, in the order of the reasons above. */
  readonly skippedFor: readonly { readonly reason: LeftOutReason; readonly count: number }[]
}

const LISTED = 100

export class LeftOut {
  readonly #listed: { readonly path: string; readonly reason: LeftOutReason }[] = []
  readonly #counts = new Map<LeftOutReason, number>()
  #count = 0

  add(path: string, reason: LeftOutReason): void {
    this.#count++
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1)
    if (this.#listed.length < LISTED) this.#listed.push({ path, reason })
  }

  report(): LeftOutReport {
    return {
      skipped: this.#listed,
      skippedCount: this.#count,
      skippedFor: LEFT_OUT_REASONS.flatMap((reason) => {
        const count = this.#counts.get(reason)
        return count === undefined ? [] : [{ reason, count }]
      }),
    }
  }
}
