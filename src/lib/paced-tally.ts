/** Counts what keeps coming, and tells it ever more seldom while it does; nothing that was counted is lost. */

export interface TallyPace {
  /** The first is told at once, the next so much later. */
  readonly everyMs: number
  /** Each pause is twice the one before, up to this; so long without anything begins anew. */
  readonly maxMs: number
}

export interface Tally<Count> {
  add(one: Count): void
  /** Tells what is not told yet. */
  close(): Promise<void>
}

/** What `tell` fails to tell is told again, with what comes after. */
export function createTally<Count>(
  both: (one: Count, other: Count) => Count,
  report: (count: Count) => Promise<void>,
  { everyMs, maxMs }: TallyPace,
): Tally<Count> {
  let waiting: Count | undefined
  let timer: NodeJS.Timeout | undefined
  let pauseMs = everyMs
  let lastMs = Number.NEGATIVE_INFINITY
  let telling: Promise<void> = Promise.resolve()
  let isClosed = false

  const add = (one: Count) => {
    waiting = waiting === undefined ? one : both(waiting, one)
  }
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (waiting === undefined) return
    const reported = waiting
    waiting = undefined
    timer = isClosed ? undefined : setTimeout(flush, pauseMs).unref()
    pauseMs = Math.min(2 * pauseMs, maxMs)
    telling = telling
      .then(() => report(reported))
      .catch(() => {
        waiting = waiting === undefined ? reported : both(reported, waiting)
      })
  }
  return {
    add(one) {
      const nowMs = performance.now()
      if (nowMs - lastMs >= maxMs) pauseMs = everyMs
      lastMs = nowMs
      add(one)
      if (timer === undefined) flush()
    },
    async close() {
      isClosed = true
      flush()
      await telling
    },
  }
}
