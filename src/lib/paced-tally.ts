/** Counts repeated events and reports them at growing intervals. A report that fails loses no count. */

export interface TallyPace {
  /** The first event is reported at once, and the next report follows after this time. */
  readonly everyMs: number
  /**
   * Each pause is twice the one before, up to this limit. After this time without an event, the pauses begin at
   * `everyMs` again.
   */
  readonly maxMs: number
}

export interface Tally<Count> {
  add(one: Count): void
  /** Reports what is not reported yet. If that fails twice, the rest is lost. */
  close(): Promise<void>
}

/** Creates a tally. A count that `report` fails to report is included in the next report. */
export function createTally<Count>(
  merge: (one: Count, other: Count) => Count,
  report: (count: Count) => Promise<void>,
  { everyMs, maxMs }: TallyPace,
): Tally<Count> {
  let waiting: Count | undefined
  let timer: NodeJS.Timeout | undefined
  let pauseMs = everyMs
  let lastMs = Number.NEGATIVE_INFINITY
  let reporting: Promise<void> = Promise.resolve()
  let isClosed = false

  const add = (one: Count) => {
    waiting = waiting === undefined ? one : merge(waiting, one)
  }
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (waiting === undefined) return
    const reported = waiting
    waiting = undefined
    timer = isClosed ? undefined : setTimeout(flush, pauseMs).unref()
    pauseMs = Math.min(2 * pauseMs, maxMs)
    reporting = reporting
      .then(() => report(reported))
      .catch(() => {
        waiting = waiting === undefined ? reported : merge(reported, waiting)
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
      await reporting
      // No report follows that could include what failed, so it gets one more attempt.
      flush()
      await reporting
    },
  }
}
