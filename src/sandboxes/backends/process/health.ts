/** What of this machine sandboxes can use, for a person to look at: each with the one command that mends it. */
import { existsSync, readFileSync } from 'node:fs'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import { probeCgroups } from './cgroups.ts'
import { findForPlaces } from './examine.ts'
import { SYSTEM_PATH } from './programs.ts'
import { readUsernsFix } from './userns.ts'

export interface HealthRow {
  readonly name: string
  /** `warn`: sandboxes work, with less than they could have. `none`: not without it. */
  readonly state: 'ok' | 'warn' | 'none'
  readonly detail: string
  readonly fix?: string
}

export async function processHealth(environment: NodeJS.ProcessEnv = process.env): Promise<HealthRow[]> {
  return [
    await bubblewrap(environment),
    tini(environment),
    userNamespaces(),
    seccomp(),
    cgroups(),
    diskQuota(),
  ]
}

async function bubblewrap(environment: NodeJS.ProcessEnv): Promise<HealthRow> {
  const name = 'bubblewrap'
  const found = await findForPlaces(environment)
  if (!('bubblewrap' in found)) return { name, state: 'none', detail: found.reason, fix: found.fix }
  const { version, disableUserns } = found.bubblewrap
  if (disableUserns) return { name, state: 'ok', detail: `${version}, isolates` }
  return {
    name,
    state: 'ok',
    detail: `${version}, isolates; new namespaces are refused by the call filter alone`,
  }
}

function tini(environment: NodeJS.ProcessEnv): HealthRow {
  const name = 'tini'
  if (findSystemProgram('tini', environment.PATH))
    return { name, state: 'ok', detail: 'reaps inside sandboxes' }
  const detail = 'not installed; bubblewrap’s own init reaps inside sandboxes'
  return { name, state: 'warn', detail, fix: 'apt-get install tini' }
}

function userNamespaces(): HealthRow {
  const name = 'user namespaces'
  const text = read('/proc/sys/user/max_user_namespaces')
  if (text === undefined) return { name, state: 'none', detail: 'this kernel has none', fix: readUsernsFix() }
  const limit = Number(text)
  if (limit === 0) return { name, state: 'none', detail: 'forbidden', fix: readUsernsFix() }
  return { name, state: 'ok', detail: `up to ${limit}` }
}

function seccomp(): HealthRow {
  const name = 'seccomp'
  if (seccompFilter({ unixSockets: true }) === undefined) {
    const detail = `there is no filter for ${process.arch}`
    return { name, state: 'none', detail, fix: 'use an x64 or arm64 machine' }
  }
  if (!/^Seccomp:/m.test(read('/proc/self/status') ?? ''))
    return {
      name,
      state: 'none',
      detail: 'this kernel filters no calls',
      fix: 'use a kernel with CONFIG_SECCOMP_FILTER',
    }
  return { name, state: 'ok', detail: `filter for ${process.arch}` }
}

function cgroups(): HealthRow {
  const name = 'cgroups'
  const { version, parents } = probeCgroups()
  const held = (['memory', 'pids', 'cpu'] as const).filter((controller) => parents[controller] !== undefined)
  if (held.length === 3) return { name, state: 'ok', detail: `v${version}, writable: ${held.join(', ')}` }
  const partly =
    held.length > 0 ? `v${version}, writable: ${held.join(', ')} only` : 'none that may be written'
  return {
    name,
    state: 'warn',
    detail: `${partly}; memory is then limited per process, processor time not at all`,
    fix: 'run as root, or from a session that systemd delegates to:  systemd-run --user --scope -p Delegate=yes craik …',
  }
}

function diskQuota(): HealthRow {
  const name = 'disk quota'
  if (process.getuid?.() !== 0)
    return { name, state: 'warn', detail: 'not enforced for ordinary users', fix: 'run as root' }
  if (findSystemProgram('mke2fs', SYSTEM_PATH) === undefined)
    return { name, state: 'warn', detail: 'mke2fs is not installed', fix: 'apt-get install e2fsprogs' }
  if (!existsSync('/dev/loop-control'))
    return { name, state: 'warn', detail: 'there are no loop devices', fix: 'modprobe loop' }
  return { name, state: 'ok', detail: 'a file system of its own for each sandbox' }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}
