/** Reads the sessions and process groups of processes from the kernel. */
import { readdirSync, readFileSync } from 'node:fs'

interface Stat {
  readonly state: string
  readonly parent: number
  readonly group: number
  readonly session: number
  readonly foregroundGroup: number
  /** The start time in ticks since boot. Another process with the same pid has a different one. */
  readonly startedAt: string
}

/** Identifies a process, and no later process with the same pid. */
export interface ProcessMark {
  readonly pid: number
  readonly startedAt: string
}

/** Returns the processes of a session that still run. */
export function membersOfSession(session: number): number[] {
  return running((stat) => stat.session === session)
}

/** Returns the processes of a group that still run. */
export function membersOfGroup(group: number): number[] {
  return running((stat) => stat.group === group)
}

/** Returns descendants of a group that are in another group. It finds them only while all processes in between run. */
export function descendantsOfGroup(group: number): ProcessMark[] {
  const stats = new Map(pids().flatMap((pid) => [[pid, statOf(pid)] as const]))
  const comesOf = new Map<number, boolean>()
  const find = (pid: number): boolean => {
    const known = comesOf.get(pid)
    if (known !== undefined) return known
    comesOf.set(pid, false)
    const stat = stats.get(pid)
    const found = stat !== undefined && (stat.group === group || find(stat.parent))
    comesOf.set(pid, found)
    return found
  }
  return [...stats].flatMap(([pid, stat]) =>
    stat !== undefined && stat.group !== group && find(pid) ? [{ pid, startedAt: stat.startedAt }] : [],
  )
}

export function isRunning({ pid, startedAt }: ProcessMark): boolean {
  const stat = statOf(pid)
  return stat !== undefined && stat.startedAt === startedAt && !isOver(stat)
}

function running(isMember: (stat: Stat) => boolean): number[] {
  return pids().filter((pid) => {
    const stat = statOf(pid)
    return stat !== undefined && isMember(stat) && !isOver(stat)
  })
}

function pids(): number[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []))
}

const isOver = ({ state }: Stat): boolean => state === 'Z' || state === 'X'

/** Returns the foreground process group of the terminal that a session's leader has. */
export function foregroundGroup(leader: number): number | undefined {
  const group = statOf(leader)?.foregroundGroup
  return group !== undefined && group > 0 ? group : undefined
}

/** The index of the start time, counted from the state. */
const STARTED_AT = 19

/** The name, in parentheses, can contain anything. The other fields come after the last parenthesis. */
function statOf(pid: number): Stat | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, parent, group, session, , foregroundGroup] = fields
  return {
    state: state!,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    foregroundGroup: Number(foregroundGroup),
    startedAt: fields[STARTED_AT]!,
  }
}
