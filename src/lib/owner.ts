/** Identifies a process so exactly that a dead owner can be distinguished from a living one. */
import { spawnSync } from 'node:child_process'
import { type BigIntStats, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { CraikError } from '../errors.ts'

export interface Owner {
  /** Empty when the system does not report it. Then the other fields decide alone. */
  readonly bootId: string
  readonly pid: number
  /** An opaque value. It is the same for as long as the process lives, and different when its pid is reused. */
  readonly startedAt: string
  readonly pidNamespace: string
}

interface Process {
  readonly startedAt: string
  readonly zombie: boolean
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return (
    a.bootId === b.bootId &&
    a.pid === b.pid &&
    a.startedAt === b.startedAt &&
    a.pidNamespace === b.pidNamespace
  )
}

/** Returns the owner record of this process. */
export function currentOwner(): Owner {
  const system = hostSystem()
  const self = system.inspect('self')
  if (typeof self === 'string')
    throw new CraikError('unavailable', 'cannot read the start time of this process', {
      hint: process.platform === 'linux' ? 'mount /proc' : 'check that ps works:  ps -p $$',
    })
  return describeOwner(process.pid, self, system)
}

/**
 * Returns the owner record of another process that runs now. Returns `undefined` when it does not run or is not
 * visible.
 */
export function ownerOf(pid: number): Owner | undefined {
  const system = hostSystem()
  const found = system.inspect(pid)
  return typeof found === 'string' || found.zombie ? undefined : describeOwner(pid, found, system)
}

function describeOwner(pid: number, { startedAt }: Process, system: HostSystem): Owner {
  return { bootId: system.bootId(), pid, startedAt, pidNamespace: system.pidNamespace() }
}

/**
 * Returns whether an owner still runs. The result is `unknown` when it is not visible to this process: it is in another
 * pid namespace of this host, or the system hides it. An owner from another boot is dead, so what it owns must be on a
 * local disk. On a shared disk, the processes of other hosts would look dead.
 */
export function ownerState(owner: Owner): 'alive' | 'dead' | 'unknown' {
  const system = hostSystem()
  const bootId = system.bootId()
  if (owner.bootId !== '' && bootId !== '' && owner.bootId !== bootId) return 'dead'
  if (owner.pidNamespace !== system.pidNamespace()) return 'unknown'
  if (!Number.isSafeInteger(owner.pid) || owner.pid <= 0) return 'unknown'
  const found = system.inspect(owner.pid)
  if (found === 'hidden') return 'unknown'
  if (found === 'gone' || found.zombie || found.startedAt !== owner.startedAt) return 'dead'
  return 'alive'
}

/**
 * Returns whether a running owner has another home's file of this name open instead of this one. The records of a
 * copied home name processes of the original. Those have the original's database open, not the copy's. Returns false
 * when that is not visible.
 */
export function hasOtherFileOpen(owner: Owner, path: string): boolean {
  if (ownerState(owner) !== 'alive') return false
  try {
    const { dev, ino } = statSync(path, { bigint: true })
    const folder = `/proc/${owner.pid}/fd`
    const open = readdirSync(folder).flatMap((name) => statIfNamed(basename(path), join(folder, name)) ?? [])
    return open.length > 0 && !open.some((one) => one.dev === dev && one.ino === ino)
  } catch {
    return false
  }
}

/** Also returns `undefined` when the descriptor was closed in the meantime. */
function statIfNamed(name: string, descriptor: string): BigIntStats | undefined {
  try {
    return basename(readlinkSync(descriptor)) === name ? statSync(descriptor, { bigint: true }) : undefined
  } catch {
    return undefined
  }
}

interface HostSystem {
  bootId(): string
  pidNamespace(): string
  inspect(pid: number | 'self'): Process | 'gone' | 'hidden'
}

function hostSystem(): HostSystem {
  if (process.platform === 'linux') return linux
  if (process.platform === 'darwin') return macos
  throw new CraikError('unavailable', `cannot identify processes on ${process.platform}`, {
    hint: 'use Linux or macOS',
  })
}

const linux: HostSystem = {
  bootId() {
    try {
      return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    } catch {
      return ''
    }
  },

  pidNamespace() {
    try {
      return readlinkSync('/proc/self/ns/pid')
    } catch (cause) {
      throw new CraikError('unavailable', 'cannot read /proc/self/ns/pid', { hint: 'mount /proc', cause })
    }
  },

  inspect(pid) {
    try {
      // A /proc of another pid namespace numbers processes differently.
      if (pid !== 'self' && readlinkSync('/proc/self') !== String(process.pid)) return 'hidden'
      return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    } catch {
      // With hidepid, /proc also has no entry for living processes of other users.
      return pid !== 'self' && isGone(pid) ? 'gone' : 'hidden'
    }
  },
}

/**
 * Parses `/proc/pid/stat`. The program's name may contain spaces and brackets, so field 3 is the first one after its
 * last bracket.
 */
function parseStat(stat: string): Process {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const state = fields[0]!
  // This is the state of the first thread alone. Others may still run, or may not have finished exiting.
  const threads = Number(fields[20 - 3])
  const zombie = (state === 'Z' && threads <= 1) || state === 'X' || state === 'x'
  return { startedAt: fields[22 - 3]!, zombie }
}

const macos: HostSystem = {
  // Unlike kern.boottime, this value does not change when the clock is set.
  bootId: () => runQuery('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']),

  pidNamespace: () => 'none',

  inspect(pid) {
    const number = pid === 'self' ? process.pid : pid
    const line = runQuery('/bin/ps', ['-o', 'stat=', '-o', 'lstart=', '-p', String(number)])
    const match = /^(\S+)\s+(.+)$/.exec(line)
    if (match === null) return isGone(number) ? 'gone' : 'hidden'
    return { startedAt: match[2]!, zombie: match[1]!.startsWith('Z') }
  },
}

/** Runs a program with a fixed locale and time zone, because `ps` writes times in them. */
function runQuery(program: string, args: readonly string[]): string {
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8', env: { LC_ALL: 'C', TZ: 'UTC' } })
  return status === 0 ? stdout.trim() : ''
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}
