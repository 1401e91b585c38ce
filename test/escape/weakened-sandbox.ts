/** Environments that lack some defenses of a sandbox, so that attacks succeed in them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { namespaceArguments, systemArguments } from '../../src/sandboxes/backends/process/bubblewrap.ts'
import { seccompFilter } from '../../src/sandboxes/seccomp/filter.ts'
import { run } from '../craik.ts'
import { USER_UID } from '../sandbox-home.ts'
import type { Outcome } from './attack.ts'

/** Without `own user`, root starts bubblewrap and does not switch to an ordinary user first. */
type Defence = 'seccomp' | 'capabilities' | 'no user namespaces' | 'network namespace' | 'own user'

/** No defenses at all, as an ordinary user or as root, or bubblewrap as a sandbox uses it without some defenses. */
export type Without = 'everything' | 'everything, as root' | readonly Defence[]

export interface WithoutOptions {
  /** More mounts, as arguments of bubblewrap. */
  readonly shown?: readonly string[]
  readonly cwd?: string
}

const IS_ROOT = process.getuid?.() === 0
const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
const ORDINARY = IS_ROOT ? { uid: USER_UID, gid: USER_UID } : {}

/** Returns whether the user who runs the tests can create such an environment. */
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
    // The user who opens the filter needs access to its folder.
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
    // With any other user id, bubblewrap would create a second user namespace, which has no rights over the first one's
    // resources.
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
