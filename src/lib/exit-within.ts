/** How a process ends that has done its work: by itself, or after a moment although something is still open. */

/** To be called last, when everything is written. `tell` learns what would have kept the process. */
export function exitWithin(ms: number, report: (leftOpen: readonly string[]) => void): void {
  // A timer that keeps nothing open itself: it fires only when something else does.
  setTimeout(() => {
    report([...new Set(process.getActiveResourcesInfo())])
    process.exit()
  }, ms).unref()
}
