/** Which processes are the sandbox's, and to which job each belongs. */
import type { Process } from './proc.ts'

/** The id of the job that began with this process, if one did. */
export type JobOf = (pid: number) => string | undefined

/** A place is started within moments: its first process, and then the sidecar. */
const STARTED_TOGETHER_MS = 10_000

/**
 * Those that belong to the sandbox. In a process namespace of its own that is all there are; without one (isolation
 * `none`) /proc shows the whole machine, and only what descends from the sidecar and its jobs is the sandbox's.
 */
export function ofThisSandbox(
  all: ReadonlyMap<number, Process>,
  sidecarPid: number,
  jobOf: JobOf,
): ReadonlyMap<number, Process> {
  if (hasOwnNamespace(all, sidecarPid)) return all
  const jobs = jobsOf(all, jobOf)
  return new Map(
    [...all].filter(([pid]) => jobs.has(pid) || lineOf(all, pid).some((parent) => parent.pid === sidecarPid)),
  )
}

/** By its own line of parents or, when those ended, by the group or session that it was born into. */
export function jobsOf(all: ReadonlyMap<number, Process>, jobOf: JobOf): ReadonlyMap<number, string> {
  const jobs = new Map<number, string>()
  for (const pid of all.keys()) {
    for (const { pid: ancestor, group, session } of lineOf(all, pid)) {
      const job = jobOf(ancestor) ?? jobOf(group) ?? jobOf(session)
      if (job === undefined) continue
      jobs.set(pid, job)
      break
    }
  }
  return jobs
}

/** The first process of the machine started long before any sandbox on it. */
function hasOwnNamespace(all: ReadonlyMap<number, Process>, sidecarPid: number): boolean {
  const first = all.get(1)
  const sidecar = all.get(sidecarPid)
  if (first === undefined || sidecar === undefined) return false
  return (
    sidecar.startedAfterMs - first.startedAfterMs <= STARTED_TOGETHER_MS &&
    lineOf(all, sidecarPid).some((process) => process.pid === 1)
  )
}

/** The process, its parent, and so on; /proc is read entry by entry, so the line may even seem to go in a circle. */
function lineOf(all: ReadonlyMap<number, Process>, pid: number): readonly Process[] {
  const line: Process[] = []
  const seen = new Set<number>()
  for (let at = all.get(pid); at !== undefined && !seen.has(at.pid); at = all.get(at.parent)) {
    seen.add(at.pid)
    line.push(at)
  }
  return line
}
