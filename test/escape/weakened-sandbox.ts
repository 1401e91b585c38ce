/** Places that lack something of what holds a sandbox, where attacks are shown to work. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { namespaceArguments, systemArguments } from '../../src/sandboxes/backends/process/bubblewrap.ts'
import { seccompFilter } from '../../src/sandboxes/seccomp/filter.ts'
import { run } from '../craik.ts'
import { USER_UID } from '../sandbox-home.ts'
import type { Outcome } from './attack.ts'

/** `own user`: bubblewrap is started by root and does not become somebody else first. */
type Defence = 'seccomp' | 'capabilities' | 'no user namespaces' | 'network namespace' | 'own user'

/** Nothing at all, as an ordinary user or as root; or bubblewrap as a sandbox has it, less some of it. */
export type Without = 'everything' | 'everything, as root' | readonly Defence[]

export interface WithoutOptions {
  /** Arguments of bubblewrap that show more. */
  readonly shown?: readonly string[]
  readonly cwd?: string
}

const IS_ROOT = process.getuid?.() === 0
const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
const ORDINARY = IS_ROOT ? { uid: USER_UID, gid: USER_UID } : {}

/** Whether the one who runs the tests can make such a place. */
export function canDoWithout(without: Without): boolean {
  return IS_ROOT || !(without === 'everything, as root' || without.includes('own user'))
}

export async function runWithout(
  without: Without,
  argv: readonly string[],
  options: WithoutOptions = {},
): Promise<Outcome> {
  const { cwd = '/' } = options
  if (without === 'everything' || without === 'everything, as root') {
    const user = without === 'everything' ? ORDINARY : {}
    return run(argv[0]!, argv.slice(1), { cwd, env: ENVIRONMENT, ...user })
  }
  const folder = mkdtempSync(join(tmpdir(), 'craik-filter-'))
  try {
    const filter = join(folder, 'filter')
    writeFileSync(filter, seccompFilter({ unixSockets: true })!)
    const command = ['sh', '-c', `exec "$@" 3<${filter}`, 'sh', ...weaken(without, options), ...argv]
    const user = without.includes('own user') ? {} : ORDINARY
    // Whoever is to open the filter has to get there.
    await run('chmod', ['-R', 'a+rX', folder])
    return await run(command[0]!, command.slice(1), { cwd: '/', env: ENVIRONMENT, ...user })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function weaken(
  without: readonly Defence[],
  { shown: mounted = [], cwd = '/tmp' }: WithoutOptions,
): string[] {
  const lacks = (defence: Defence) => without.includes(defence)
  const dropped = [
    ...(lacks('network namespace') ? ['--unshare-net'] : []),
    ...(lacks('capabilities') ? ['--cap-drop', 'ALL'] : []),
  ]
  const stored = namespaceArguments('sandbox', !lacks('no user namespaces')).filter(
    (argument) => !dropped.includes(argument),
  )
  return [
    'bwrap',
    ...stored,
    // As any other number it would get a second user namespace, in which it had no rights over the rest.
    ...(lacks('capabilities') ? ['--cap-add', 'ALL', '--uid', '0', '--gid', '0'] : []),
    ...(lacks('seccomp') ? [] : ['--seccomp', '3']),
    ...systemArguments(),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--tmpfs',
    '/tmp',
    ...mounted,
    '--chdir',
    cwd,
    '--',
  ]
}
