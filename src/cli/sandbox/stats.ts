/**
 * Formats what a sandbox uses: as the host observes it, as the sandbox reports it, its limits, and how they are
 * enforced.
 */

import { formatDuration } from '../../lib/duration.ts'
import type { StatsBody } from '../../operator/api/bodies.ts'
import { table } from '../output.ts'
import { formatBytes } from './amounts.ts'
import { cpuOf } from './describe-sandbox.ts'

interface StatsRow {
  readonly what: string
  readonly observed: string
  readonly claimed: string
  readonly limit: string
  readonly held: string
}

/** The titles that differ from the row's field. */
const TITLES: Readonly<Record<string, string>> = { what: '', held: 'enforced' }

/** `observed` is the host's own figure. `claimed` is what the sandbox reports about itself, and it decides nothing. */
export function describeStats({ observed, claimed, limits, enforced }: StatsBody): string {
  const rows: StatsRow[] = [
    {
      what: 'memory',
      observed: bytes(observed.memory_bytes),
      claimed: bytes(claimed.memory_bytes),
      limit: bytes(limits.memory_bytes),
      held: enforced.memory,
    },
    {
      what: 'cpu',
      observed: time(observed.cpu_ms),
      claimed: time(claimed.cpu_ms),
      limit: cpuOf(limits),
      held: enforced.cpu,
    },
    {
      what: 'processes',
      observed: count(observed.processes),
      claimed: count(claimed.processes),
      limit: count(limits.processes),
      held: enforced.processes,
    },
    {
      what: 'disk',
      observed: bytes(observed.disk_bytes),
      claimed: `${bytes(claimed.disk_used_bytes)} (${bytes(claimed.disk_free_bytes)} free)`,
      limit: limits.disk_bytes === undefined ? 'no limit' : bytes(limits.disk_bytes),
      held: enforced.disk,
    },
  ]
  const columns = (['what', 'observed', 'claimed', 'limit', 'held'] as const).map((title) => ({
    title: TITLES[title] ?? title,
    value: (row: StatsRow) => (row[title] === 'not-asked' ? '–' : row[title]),
  }))
  const kills = observed.out_of_memory_kills ?? 0
  const ended = kills === 0 ? '' : `  out of memory  processes killed by the kernel: ${kills}\n`
  const busy = `${claimed.running_jobs} jobs · ${claimed.open_connections} connections · sidecar ${bytes(claimed.sidecar_memory_bytes)}`
  return `${table(columns, rows)}${ended}  sandbox (claimed)  ${busy}\n${noteOf(enforced)}`
}

/**
 * Explains why the two columns differ even if the sandbox is honest: a control group counts more than processes report
 * about themselves.
 */
function noteOf({ memory, processes }: StatsBody['enforced']): string {
  const notes = [
    ...(memory === 'cgroup' ? ['memory with file cache'] : []),
    ...(processes === 'cgroup' ? ['processes with threads'] : []),
  ]
  return notes.length === 0 ? '' : `  observed figures   ${notes.join(' · ')}\n`
}

function bytes(value: number | undefined): string {
  return value === undefined ? '–' : formatBytes(value)
}

function time(value: number | undefined): string {
  return value === undefined ? '–' : formatDuration(value)
}

function count(value: number | undefined): string {
  return value === undefined ? '–' : value.toLocaleString('en')
}
