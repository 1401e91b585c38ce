/**
 * Finds and ends the processes of a sandbox from the host, without trusting anything that the sandbox could have
 * written.
 */
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
import { hostPageBytes } from './page-size.ts'

const END_DEADLINE_MS = 15_000
/** The deadline for all rounds together, because a process on the host can start others faster than they end. */
const END_ALL_DEADLINE_MS = 60_000
/** The tick length of the times in `/proc/<pid>/stat`. It is the same on every Linux that Node supports. */
const MS_PER_TICK = 10
const MAX_COUNTED = 10_000
/** The part of an environment that is read. Craik writes the mark at the beginning of the environment. */
const MAX_READ_BYTES = 256 * 1024
/** How long a search through processes may block the event loop. */
const SLICE_MS = 5

export interface ProcessQuery {
  readonly id: string
  readonly folder: string
  readonly hostUser?: HostUser | undefined
}

/**
 * Finds every process on the host that runs for a sandbox, and the first process in it. The processes on the host have
 * a mark in their environment, which the sandbox cannot reach. The first process is recognized by its mounts, which the
 * sandbox cannot change. Never reads the memory of other processes in a sandbox, or of other users: their owner
 * controls how long that takes.
 */
export function findInstanceProcesses(query: ProcessQuery): Promise<Owner[]> {
  return findProcesses((pid) => isOf(query, pid))
}

/** Finds all other processes on this host for which `isSought` returns true. */
export async function findProcesses(isSought: (pid: number) => Promise<boolean>): Promise<Owner[]> {
  const pause = pacer()
  const found: Owner[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!/^\d+$/.test(name) || pid === process.pid) continue
    await pause()
    if (!(await isSought(pid))) continue
    const owner = ownerOf(pid)
    // Checks again, because another process can have received the pid before `ownerOf` read it.
    if (owner !== undefined && (await isSought(pid))) found.push(owner)
  }
  return found
}

/**
 * Returns whether a process can be the outermost one of this sandbox: it is on the host or first in a sandbox, and has
 * an expected user id.
 */
export function isOutermost(query: ProcessQuery, pid: number): boolean {
  const { isOutside, isFirst, uid } = readProcessStatus(pid)
  return (isOutside || isFirst) && hasExpectedUid(query, uid)
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

function hasExpectedUid({ hostUser }: ProcessQuery, uid: number): boolean {
  return uid === 0 || uid === process.geteuid?.() || uid === hostUser?.uid
}

async function isOf(query: ProcessQuery, pid: number): Promise<boolean> {
  const { id, folder } = query
  const { isOutside, isFirst, uid } = readProcessStatus(pid)
  if (!isOutside && !isFirst) return false
  if (isFirst && hasItsSocket(pid, folder)) return true
  if (!hasExpectedUid(query, uid)) return false
  const environment = `\0${await readBeginning(`/proc/${pid}/environ`)}`
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

/**
 * Finds and ends processes in rounds until none is left. A round also finds what the previous ones started meanwhile.
 */
export async function endAll(find: () => Promise<readonly Owner[]>): Promise<void> {
  const endsMs = performance.now() + END_ALL_DEADLINE_MS
  for (let found = await find(); found.length > 0; found = await find()) {
    if (performance.now() > endsMs) throw notEndedError()
    await endProcesses(found)
  }
}

/**
 * Sends SIGKILL to each process and waits until none is left. When the first process of a sandbox dies, the kernel ends
 * all others in it.
 */
export async function endProcesses(owners: readonly Owner[]): Promise<void> {
  const endsMs = performance.now() + END_DEADLINE_MS
  for (let pauseMs = 1; ; pauseMs = Math.min(50, pauseMs * 2)) {
    const living = owners.filter((owner) => ownerState(owner) === 'alive')
    if (living.length === 0) return
    if (performance.now() > endsMs) throw notEndedError()
    for (const owner of living) signalOwner(owner, 'SIGKILL')
    await sleep(pauseMs)
  }
}

/** Does nothing when the process has exited, even if another process has its pid now. */
export function signalOwner(owner: Owner, signal: NodeJS.Signals): void {
  if (ownerState(owner) !== 'alive') return
  try {
    process.kill(owner.pid, signal)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ESRCH' && code !== 'EPERM') throw error
  }
}

/**
 * Returns the process and all its running descendants. Returns nothing when the process has exited, even if another
 * process has its pid now.
 */
export function withDescendants(first: Owner): Owner[] {
  const found = ownerState(first) === 'alive' ? [first] : []
  for (let i = 0; i < found.length && found.length < MAX_COUNTED; i++) found.push(...childOwners(found[i]!))
  return found.slice(0, MAX_COUNTED)
}

/** Returns only processes that still have this parent after `ownerOf` read them, because pids are reused. */
function childOwners(parent: Owner): Owner[] {
  const children = childrenOf(parent.pid)
    .flatMap((pid) => ownerOf(pid) ?? [])
    .filter(({ pid }) => Number(statOf(pid)[4 - 3]) === parent.pid)
  return ownerState(parent) === 'alive' ? children : []
}

/** Sums the usage of the running processes. The time of exited ones is counted in the parent that waited for them. */
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
  // The sums belong to this sandbox only if the first process still has its pid.
  if (living.length === 0 || ownerState(first) !== 'alive') return {}
  const sum = (...fields: readonly number[]) =>
    living.reduce((total, stat) => total + fields.reduce((part, n) => part + Number(stat[n - 3]), 0), 0)
  // utime, stime, cutime, cstime; rss.
  return {
    cpuMs: sum(14, 15, 16, 17) * MS_PER_TICK,
    memoryBytes: sum(24) * hostPageBytes(),
    processes: living.length,
  }
}

/**
 * Returns the fields of `/proc/<pid>/stat` from the third on. They follow the name, which can contain any character.
 */
function statOf(pid: number): string[] {
  const stat = read(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** Returns a function to await between steps. It yields to the event loop when a time slice is used up. */
function pacer(): () => Promise<void> {
  let endsMs = performance.now() + SLICE_MS
  return async () => {
    if (performance.now() < endsMs) return
    await nextTurn()
    endsMs = performance.now() + SLICE_MS
  }
}

function notEndedError(): CraikError {
  return new CraikError('timeout', 'the processes of a sandbox did not exit', {
    hint: 'try again:  craik sandbox stop ID',
  })
}

/** For files that the kernel writes alone. Reading them does not block, so this is synchronous. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** For what a process writes. It reads a limited length, and only its caller waits for it. */
async function readBeginning(path: string): Promise<string> {
  try {
    await using file = await open(path)
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(MAX_READ_BYTES), 0, MAX_READ_BYTES, 0)
    return buffer.toString('latin1', 0, bytesRead)
  } catch {
    return ''
  }
}
