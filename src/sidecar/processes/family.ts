/** Selects the processes that belong to the sandbox, and finds the job of each. */
import type { Process } from './proc.ts'

/** Returns the id of the job that began with this process, if there is one. */
export type JobOf = (pid: number) => string | undefined

export interface Family {
  readonly sidecarPid: number
  readonly jobOf: JobOf
  /** Whether the sandbox has a process namespace of its own. */
  readonly isIsolated: boolean
}

/**
 * Returns the processes of the sandbox. In a process namespace of its own, these are all processes. Without one
 * (isolation `none`), /proc shows the whole host, and only descendants of the sidecar and its jobs are the sandbox's.
 */
export function processesOfSandbox(
  all: ReadonlyMap<number, Process>,
  { sidecarPid, jobOf, isIsolated }: Family,
): ReadonlyMap<number, Process> {
  if (isIsolated) return all
  const jobs = jobsOf(all, jobOf)
  return new Map(
    [...all].filter(
      ([pid]) => jobs.has(pid) || ancestryOf(all, pid).some((parent) => parent.pid === sidecarPid),
    ),
  )
}

/**
 * Finds the job of a process by its ancestors or, if those have exited, by the group or session that it was created in.
 */
export function jobsOf(all: ReadonlyMap<number, Process>, jobOf: JobOf): ReadonlyMap<number, string> {
  const jobs = new Map<number, string>()
  for (const pid of all.keys()) {
    for (const { pid: ancestor, group, session } of ancestryOf(all, pid)) {
      const job = jobOf(ancestor) ?? jobOf(group) ?? jobOf(session)
      if (job === undefined) continue
      jobs.set(pid, job)
      break
    }
  }
  return jobs
}

/**
 * Returns the process, its parent, and so on. /proc is read entry by entry, so the ancestors may even seem to form a
 * cycle.
 */
function ancestryOf(all: ReadonlyMap<number, Process>, pid: number): readonly Process[] {
  const line: Process[] = []
  const seen = new Set<number>()
  for (let at = all.get(pid); at !== undefined && !seen.has(at.pid); at = all.get(at.parent)) {
    seen.add(at.pid)
    line.push(at)
  }
  return line
}
