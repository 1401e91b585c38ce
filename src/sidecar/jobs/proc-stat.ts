/** What the kernel says of sessions and process groups. */
import { readdirSync, readFileSync } from 'node:fs'

interface Stat {
  readonly state: string
  readonly group: number
  readonly session: number
  readonly foregroundGroup: number
}

/** Processes of a session that still run. */
export function membersOfSession(session: number): number[] {
  return running((stat) => stat.session === session)
}

/** Processes of a group that still run. */
export function membersOfGroup(group: number): number[] {
  return running((stat) => stat.group === group)
}

function running(isMember: (stat: Stat) => boolean): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    const stat = statOf(pid)
    return stat !== undefined && isMember(stat) && stat.state !== 'Z' && stat.state !== 'X'
  })
}

/** The group that the terminal of a session's leader listens to. */
export function foregroundGroup(leader: number): number | undefined {
  const group = statOf(leader)?.foregroundGroup
  return group !== undefined && group > 0 ? group : undefined
}

/** The name, in brackets, may hold anything: what counts comes after the last one. */
function statOf(pid: number): Stat | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined
  }
  const [state, , group, session, , foregroundGroup] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return {
    state: state!,
    group: Number(group),
    session: Number(session),
    foregroundGroup: Number(foregroundGroup),
  }
}
