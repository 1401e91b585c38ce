/** Reports which sandbox features this host supports, each with the command that fixes it. For users to read. */
import { existsSync, readFileSync } from 'node:fs'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import { probeCgroups } from './cgroups.ts'
import { findBubblewrapForSandboxes } from './find-bubblewrap.ts'
import { SYSTEM_PATH } from './required-programs.ts'
import { readUsernsFix } from './userns.ts'

export interface BackendHealth {
  readonly name: string
  /** `warn`: sandboxes work with reduced features. `none`: they do not work without it. */
  readonly state: 'ok' | 'warn' | 'none'
  readonly detail: string
  readonly fix?: string
}

export async function processHealth(environment: NodeJS.ProcessEnv = process.env): Promise<BackendHealth[]> {
  return [
    await bubblewrap(environment),
    tini(environment),
    userNamespaces(),
    seccomp(),
    cgroups(),
    diskQuota(),
  ]
}

async function bubblewrap(environment: NodeJS.ProcessEnv): Promise<BackendHealth> {
  const name = 'bubblewrap'
  const found = await findBubblewrapForSandboxes(environment)
  if (!('bubblewrap' in found)) return { name, state: 'none', detail: found.reason, fix: found.fix }
  const { version, disableUserns } = found.bubblewrap
  if (disableUserns) return { name, state: 'ok', detail: `${version}, isolation works` }
  return {
    name,
    state: 'ok',
    detail: `${version}, isolation works; only the call filter blocks new namespaces`,
  }
}

function tini(environment: NodeJS.ProcessEnv): BackendHealth {
  const name = 'tini'
  if (findSystemProgram('tini', environment.PATH))
    return { name, state: 'ok', detail: 'reaps processes in sandboxes' }
  const detail = 'not installed; bubblewrap’s own init reaps processes in sandboxes'
  return { name, state: 'warn', detail, fix: 'apt-get install tini' }
}

function userNamespaces(): BackendHealth {
  const name = 'user namespaces'
  const text = read('/proc/sys/user/max_user_namespaces')
  if (text === undefined)
    return { name, state: 'none', detail: 'not supported by this kernel', fix: readUsernsFix() }
  const limit = Number(text)
  if (limit === 0) return { name, state: 'none', detail: 'forbidden', fix: readUsernsFix() }
  return { name, state: 'ok', detail: `up to ${limit}` }
}

function seccomp(): BackendHealth {
  const name = 'seccomp'
  if (seccompFilter({ unixSockets: true }) === undefined) {
    const detail = `no filter for ${process.arch}`
    return { name, state: 'none', detail, fix: 'use an x64 or arm64 machine' }
  }
  if (!/^Seccomp:/m.test(read('/proc/self/status') ?? ''))
    return {
      name,
      state: 'none',
      detail: 'this kernel does not filter system calls',
      fix: 'use a kernel with CONFIG_SECCOMP_FILTER',
    }
  return { name, state: 'ok', detail: `filter for ${process.arch}` }
}

function cgroups(): BackendHealth {
  const name = 'cgroups'
  const { version, parents } = probeCgroups()
  const held = (['memory', 'pids', 'cpu'] as const).filter((controller) => parents[controller] !== undefined)
  if (held.length === 3) return { name, state: 'ok', detail: `v${version}, writable: ${held.join(', ')}` }
  const partly = held.length > 0 ? `v${version}, writable: ${held.join(', ')} only` : 'none writable'
  return {
    name,
    state: 'warn',
    detail: `${partly}; memory is limited per process, CPU time is not limited`,
    fix: 'run as root, or in a session with cgroups delegated by systemd:  systemd-run --user --scope -p Delegate=yes craik …',
  }
}

function diskQuota(): BackendHealth {
  const name = 'disk quota'
  if (process.getuid?.() !== 0)
    return { name, state: 'warn', detail: 'not enforced for ordinary users', fix: 'run as root' }
  if (findSystemProgram('mke2fs', SYSTEM_PATH) === undefined)
    return { name, state: 'warn', detail: 'mke2fs is not installed', fix: 'apt-get install e2fsprogs' }
  if (!existsSync('/dev/loop-control'))
    return { name, state: 'warn', detail: 'no loop devices', fix: 'modprobe loop' }
  return { name, state: 'ok', detail: 'one file system per sandbox' }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}
