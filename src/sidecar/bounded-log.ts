/** Writes the sidecar's own log lines. Their number is limited, so that they cannot fill a disk. */

const LINES_PER_MINUTE = 200
const MAX_LINE_CHARACTERS = 2000

export function createBoundedLog(write: (line: string) => void): (line: string) => void {
  let since = performance.now()
  let lines = 0
  return (line) => {
    const now = performance.now()
    if (now - since > 60_000) {
      since = now
      lines = 0
    }
    lines++
    if (lines > LINES_PER_MINUTE) return
    const rest = lines === LINES_PER_MINUTE ? ' (no more lines for this minute)' : ''
    write(`${new Date().toISOString()} ${line.slice(0, MAX_LINE_CHARACTERS)}${rest}`)
  }
}
