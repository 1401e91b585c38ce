/** Lets a process that has finished its work exit: by itself, or after a delay although something is still open. */

/** Call it last, when everything is written. `report` receives what would have kept the process running. */
export function exitWithin(ms: number, report: (leftOpen: readonly string[]) => void): void {
  // This timer does not keep the process running. It fires only when something else does.
  setTimeout(() => {
    report([...new Set(process.getActiveResourcesInfo())])
    process.exit()
  }, ms).unref()
}
