/** Reads the processes that /proc shows, with the kernel's values. */
import { readdirSync, readFileSync } from 'node:fs'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  readonly name: string
  readonly state: string
  readonly cpuMs: number
  /** The CPU time of children that exited and were waited for. */
  readonly childrenCpuMs: number
  readonly residentPages: number
  /** The start time since boot. */
  readonly startedAfterMs: number
}

/** Linux reports times in hundredths of a second, whatever its own tick is. */
const TICK_MS = 10

/** Returns the processes that can be read. A process that exits meanwhile is not included. */
export function readProcesses(): ReadonlyMap<number, Process> {
  const found = new Map<number, Process>()
  for (const name of readdirSync('/proc')) {
    if (!/^[1-9]\d*$/.test(name)) continue
    const process = readProcess(Number(name))
    if (process !== undefined) found.set(process.pid, process)
  }
  return found
}

function readProcess(pid: number): Process | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return undefined
  }
}

/**
 * A name may contain spaces, parentheses and line ends, so the other fields are counted from its last parenthesis on.
 */
export function parseStat(stat: string): Process | undefined {
  const open = stat.indexOf('(')
  const close = stat.lastIndexOf(')')
  if (open === -1 || close < open) return undefined
  // The first of these is field 3, the state.
  const fields = stat
    .slice(close + 2)
    .trim()
    .split(' ')
  const number = (field: number) => Number(fields[field - 3])
  const process: Process = {
    pid: Number(stat.slice(0, open).trim()),
    parent: number(4),
    group: number(5),
    session: number(6),
    name: Buffer.from(stat.slice(open + 1, close), 'latin1').toString('utf8'),
    state: fields[0] ?? '',
    cpuMs: (number(14) + number(15)) * TICK_MS,
    childrenCpuMs: (number(16) + number(17)) * TICK_MS,
    residentPages: Math.max(0, number(24)),
    startedAfterMs: number(22) * TICK_MS,
  }
  const numbers = Object.values(process).filter((value) => typeof value === 'number')
  return numbers.every(Number.isFinite) ? process : undefined
}

/** Returns the boot time, in milliseconds since 1970. */
export function readBootTimeMs(): number {
  const match = /^btime (\d+)$/m.exec(readFileSync('/proc/stat', 'latin1'))
  return match === null ? 0 : Number(match[1]) * 1000
}

/**
 * Returns the page size. The kernel counts in pages and reports their size nowhere in /proc, but Node reports its own
 * memory in bytes.
 */
export function pageBytes(self: Process | undefined): number {
  if (self === undefined || self.residentPages === 0) return 4096
  const ratio = process.memoryUsage.rss() / self.residentPages
  return 2 ** Math.round(Math.log2(ratio))
}
