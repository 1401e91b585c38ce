/** Finding and ending the processes of a sandbox from the host, without trusting anything that it could have written. */
import { readFileSync } from 'node:fs'
import { open, readdir } from 'node:fs/promises'
import { basename } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import { type Owner, ownerOf, ownerState } from '../../../lib/owner.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { HostUser, ObservedUse } from '../../backend.ts'
import { childrenOf } from './descendants.ts'
import { INHERITED_MARKER, MARKER } from './launch-process.ts'

const END_DEADLINE_MS = 15_000
/** For all rounds together: something on the host that starts others faster than they end is not waited for. */
const END_ALL_DEADLINE_MS = 60_000
const PAGE_BYTES = 4096
/** Ticks of the clock in `/proc/<pid>/stat`; the same on every Linux that Node runs on. */
const MS_PER_TICK = 10
const MAX_COUNTED = 10_000
/** Of an environment; the mark stands at the beginning of those that Craik makes. */
const MAX_READ_BYTES = 256 * 1024
/** How long a walk over processes holds up everything else. */
const SLICE_MS = 5

export interface ProcessQuery {
  readonly id: string
  readonly folder: string
  readonly hostUser?: HostUser | undefined
}

/**
 * All that runs on the host for a sandbox, and the first process inside. The former carry a mark in an environment
 * that nothing inside can reach; the latter is told by its mounts, which nothing inside can change. Of what else runs
 * inside, or as somebody else, no memory is looked at: whoever owns it decides how long that takes.
 */
export function findInstanceProcesses(query: ProcessQuery): Promise<Owner[]> {
  return findProcesses((pid) => isOf(query, pid))
}

/** All others on this machine for which it is so. */
export async function findProcesses(isSought: (pid: number) => Promise<boolean>): Promise<Owner[]> {
  const pause = pacer()
  const found: Owner[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!/^\d+$/.test(name) || pid === process.pid) continue
    await pause()
    if (!(await isSought(pid))) continue
    const owner = ownerOf(pid)
    // Once more: its number may have gone to another one before it was noted which one it is.
    if (owner !== undefined && (await isSought(pid))) found.push(owner)
  }
  return found
}

/** Whether it runs on the host or is the first process inside, with the rights of one that runs sandboxes. */
export function isOutermost(query: ProcessQuery, pid: number): boolean {
  const { isOutside, isFirst, uid } = readProcessStatus(pid)
  return (isOutside || isFirst) && mayServe(query, uid)
}

function readProcessStatus(pid: number) {
  const status = read(`/proc/${pid}/status`)
  const numbers = /^NSpid:\t(.*)$/m.exec(status)?.[1]?.split('\t') ?? []
  return {
    isOutside: numbers.length === 1,
    isFirst: numbers.length > 1 && numbers.at(-1) === '1',
    uid: Number(/^Uid:\t(\d+)\t/m.exec(status)?.[1]),
  }
}

function mayServe({ hostUser }: ProcessQuery, uid: number): boolean {
  return uid === 0 || uid === process.geteuid?.() || uid === hostUser?.uid
}

async function isOf(query: ProcessQuery, pid: number): Promise<boolean> {
  const { id, folder } = query
  const { isOutside, isFirst, uid } = readProcessStatus(pid)
  if (!isOutside && !isFirst) return false
  if (isFirst && hasItsSocket(pid, folder)) return true
  if (!mayServe(query, uid)) return false
  const environment = `\0${await beginningOf(`/proc/${pid}/environ`)}`
  return [MARKER, INHERITED_MARKER].some((name) => environment.includes(`\0${name}=${id}\0`))
}

function hasItsSocket(pid: number, folder: string): boolean {
  return read(`/proc/${pid}/mountinfo`)
    .split('\n')
    .map((line) => line.split(' '))
    .some(
      ([, , , root, point]) => point === INSIDE.socketFolder && root?.endsWith(`/${basename(folder)}/socket`),
    )
}

/** Rounds of finding and ending, until nothing is found: what one of them started meanwhile is found in the next. */
export async function endAll(find: () => Promise<readonly Owner[]>): Promise<void> {
  const endsMs = performance.now() + END_ALL_DEADLINE_MS
  for (let found = await find(); found.length > 0; found = await find()) {
    if (performance.now() > endsMs) throw notEnded()
    await endProcesses(found)
  }
}

/** SIGKILL to each, then waits until none is left. Of the first process inside, the kernel takes all others along. */
export async function endProcesses(owners: readonly Owner[]): Promise<void> {
  const endsMs = performance.now() + END_DEADLINE_MS
  for (let pauseMs = 1; ; pauseMs = Math.min(50, pauseMs * 2)) {
    const living = owners.filter((owner) => ownerState(owner) === 'alive')
    if (living.length === 0) return
    if (performance.now() > endsMs) throw notEnded()
    for (const owner of living) signalOwner(owner, 'SIGKILL')
    await sleep(pauseMs)
  }
}

/** Nothing happens when it has ended, whoever has its number now. */
export function signalOwner(owner: Owner, signal: NodeJS.Signals): void {
  if (ownerState(owner) !== 'alive') return
  try {
    process.kill(owner.pid, signal)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ESRCH' && code !== 'EPERM') throw error
  }
}

/** The process and all below it that run now; nothing when it has ended, whoever has its number now. */
export function withDescendants(first: Owner): Owner[] {
  const found = ownerState(first) === 'alive' ? [first] : []
  for (let i = 0; i < found.length && found.length < MAX_COUNTED; i++) found.push(...childOwners(found[i]!))
  return found.slice(0, MAX_COUNTED)
}

/** Only those whose parent is seen to be it after they were noted: numbers are used again. */
function childOwners(parent: Owner): Owner[] {
  const children = childrenOf(parent.pid)
    .flatMap((pid) => ownerOf(pid) ?? [])
    .filter(({ pid }) => Number(statOf(pid)[4 - 3]) === parent.pid)
  return ownerState(parent) === 'alive' ? children : []
}

/** Summed over the processes that run now; those that ended count in who waited for them. */
export async function observeProcesses(first: Owner): Promise<ObservedUse> {
  const pause = pacer()
  const pids = [first.pid]
  const living: string[][] = []
  for (let i = 0; i < pids.length && i < MAX_COUNTED; i++) {
    await pause()
    pids.push(...childrenOf(pids[i]!))
    const stat = statOf(pids[i]!)
    if (stat.length > 1) living.push(stat)
  }
  // What was summed is its own only if it still has its number.
  if (living.length === 0 || ownerState(first) !== 'alive') return {}
  const sum = (...fields: readonly number[]) =>
    living.reduce((total, stat) => total + fields.reduce((part, n) => part + Number(stat[n - 3]), 0), 0)
  // utime, stime, cutime, cstime; rss.
  return {
    cpuMs: sum(14, 15, 16, 17) * MS_PER_TICK,
    memoryBytes: sum(24) * PAGE_BYTES,
    processes: living.length,
  }
}

/** The fields of `/proc/<pid>/stat` from the third on, which follow the name; a name may hold anything. */
function statOf(pid: number): string[] {
  const stat = read(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** To be awaited between steps: lets everything else run whenever a slice of time is used up. */
function pacer(): () => Promise<void> {
  let endsMs = performance.now() + SLICE_MS
  return async () => {
    if (performance.now() < endsMs) return
    await nextTurn()
    endsMs = performance.now() + SLICE_MS
  }
}

function notEnded(): CraikError {
  return new CraikError('timeout', 'the processes of a sandbox did not exit')
}

/** For what the kernel alone writes, and therefore at once. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** For what a process writes: so much and no more, and nobody waits for it but the caller. */
async function beginningOf(path: string): Promise<string> {
  try {
    await using file = await open(path)
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(MAX_READ_BYTES), 0, MAX_READ_BYTES, 0)
    return buffer.toString('latin1', 0, bytesRead)
  } catch {
    return ''
  }
}
