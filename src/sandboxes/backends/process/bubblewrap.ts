/** How bubblewrap is told what a sandbox sees: programs read-only, one folder read-only, and nothing else of the host. */
import { lstatSync, readlinkSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import type { ProjectFolder } from './workspace.ts'

/** Where the workspace is inside, whatever it is called outside: paths of the host say who works on it. */
export const WORKSPACE_INSIDE = '/workspace'

const USER = 'sandbox'
const HOME = '/home/sandbox'
const ID = '1000'

/** All that a program finds in its environment, with what its caller adds. */
const ENVIRONMENT_INSIDE: Readonly<Record<string, string>> = {
  PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin',
  HOME,
  USER,
  LOGNAME: USER,
  LANG: 'C.UTF-8',
  TERM: 'dumb',
  TMPDIR: '/tmp',
}

/** Programs and libraries. On most systems all but the first are links into it. */
const PROGRAM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']

/** Of the host's /etc only what programs need to start, to check certificates and to tell the time. */
const ETC = [
  '/etc/ld.so.cache',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/alternatives',
  '/etc/localtime',
  '/etc/ssl/certs',
  '/etc/ca-certificates',
  '/etc/pki/tls/certs',
]

/** In memory, empty at first, gone with the command; each may hold this much. */
export const WRITABLE_INSIDE: readonly string[] = ['/tmp', HOME, '/dev/shm']
const TMPFS_BYTES = 256 * 1024 * 1024

/** Written by us: who is who inside, so that no account of the host is named. */
export function ownEtc(user: string, home: string): readonly (readonly [string, string])[] {
  return [
    [
      '/etc/passwd',
      `${user}:x:${ID}:${ID}::${home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n`,
    ],
    ['/etc/group', `${user}:x:${ID}:\nnogroup:x:65534:\n`],
    ['/etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files\n'],
    ['/etc/hosts', '127.0.0.1 localhost\n::1 localhost\n'],
  ]
}

/** Namespaces of its own, the number it is known by inside, and no rights over any of it. */
export function namespaceArguments(hostname: string, disableUserns: boolean): string[] {
  return [
    '--unshare-user',
    '--uid',
    ID,
    '--gid',
    ID,
    '--unshare-pid',
    '--unshare-net',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    '--hostname',
    hostname,
    '--cap-drop',
    'ALL',
    '--new-session',
    ...(disableUserns ? ['--disable-userns'] : []),
  ]
}

/** The programs of this machine, and what they need of its settings. */
export function systemArguments(): string[] {
  return [...PROGRAM_FOLDERS.flatMap(bindReadOnly), ...ETC.flatMap((path) => ['--ro-bind-try', path, path])]
}

/** For `--args`: every user of the machine may read the arguments of a process, nobody else what we write to it. */
export function environmentArguments(environment: Readonly<Record<string, string>>): string {
  return Object.entries(environment)
    .map(([name, value]) => `--setenv\0${name}\0${value}\0`)
    .join('')
}

export interface Invocation {
  readonly argv: readonly string[]
  /** For descriptors 3 and up, in the order in which `argv` refers to them. */
  readonly inputs: readonly Buffer[]
}

/** The arguments for one command in a sandbox of its own. What becomes of it is told on the descriptor after the inputs. */
export function invocation(
  bwrap: string,
  workspace: ProjectFolder | undefined,
  environment: Readonly<Record<string, string>>,
  command: readonly string[],
  options: { readonly disableUserns: boolean },
): Invocation {
  const inputs: Buffer[] = []
  const descriptorOf = (content: Buffer | string): string => String(2 + inputs.push(Buffer.from(content)))
  // The workspace of a single command may hold sockets of the host.
  const filter = seccompFilter({ unixSockets: false })
  if (filter === undefined) throw new CraikError('unavailable', `no system call filter for ${process.arch}`)
  const argv = [
    bwrap,
    ...namespaceArguments('sandbox', options.disableUserns),
    '--die-with-parent',
    '--seccomp',
    descriptorOf(filter),
    ...systemArguments(),
    ...ownEtc(USER, HOME).flatMap(([path, content]) => ['--ro-bind-data', descriptorOf(content), path]),
    // Where root could not give its identity up, settings of the kernel would be its to write.
    '--proc',
    '/proc',
    '--remount-ro',
    '/proc',
    '--dev',
    '/dev',
    ...WRITABLE_INSIDE.flatMap((path) => ['--size', String(TMPFS_BYTES), '--tmpfs', path]),
    '--remount-ro',
    '/dev',
    ...workspaceArguments(workspace),
    // The root itself is a tmpfs: what was made in it above is all that it ever holds.
    '--remount-ro',
    '/',
    '--clearenv',
    '--args',
    descriptorOf(environmentArguments({ ...ENVIRONMENT_INSIDE, ...environment })),
    // After the last of the inputs: there it tells whether the command was ever started.
    '--json-status-fd',
    String(3 + inputs.length),
    '--',
    ...command,
  ]
  return { argv, inputs }
}

function bindReadOnly(path: string): string[] {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return []
  return stats.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
}

/** Covered folders get an empty file system over them, which cannot be written either. */
function workspaceArguments(workspace: ProjectFolder | undefined): string[] {
  if (workspace === undefined) return ['--chdir', '/']
  return [
    '--ro-bind',
    workspace.folder,
    WORKSPACE_INSIDE,
    ...workspace.covered.flatMap((way) => {
      const path = `${WORKSPACE_INSIDE}/${way}`
      return ['--tmpfs', path, '--remount-ro', path]
    }),
    '--chdir',
    WORKSPACE_INSIDE,
  ]
}
