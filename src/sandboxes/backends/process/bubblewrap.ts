/**
 * Builds the arguments that define what bubblewrap shows a command: programs and one folder, both read-only, and
 * nothing else of the host.
 */
import { lstatSync, readlinkSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import type { ProjectFolder } from './workspace.ts'

/** The path of the workspace in the sandbox, whatever its path on the host. Host paths reveal the user's name. */
export const WORKSPACE_INSIDE = '/workspace'

const USER = 'sandbox'
const HOME = '/home/sandbox'
const ID = '1000'

/** The whole environment of a program, besides what its caller adds. */
const ENVIRONMENT_INSIDE: Readonly<Record<string, string>> = {
  PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin',
  HOME,
  USER,
  LOGNAME: USER,
  LANG: 'C.UTF-8',
  TERM: 'dumb',
  TMPDIR: '/tmp',
}

/** Programs and libraries. On most systems, all except the first are links into the first. */
const PROGRAM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']

/** The part of the host's /etc that programs need to start, to check certificates and to compute the local time. */
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

/** File systems in memory. They start empty and end with the command. Each can hold `TMPFS_BYTES`. */
export const WRITABLE_INSIDE: readonly string[] = ['/tmp', HOME, '/dev/shm']
const TMPFS_BYTES = 256 * 1024 * 1024

/** Returns files that Craik writes: the users in the sandbox, so that no account of the host is named. */
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

/** Separate namespaces, the user id in the sandbox, and no capabilities in them. */
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

/** The programs of this host, and the settings that they need. */
export function systemArguments(): string[] {
  return [...PROGRAM_FOLDERS.flatMap(bindReadOnly), ...ETC.flatMap((path) => ['--ro-bind-try', path, path])]
}

/**
 * Formats variables for `--args`. Every user of the host can read the arguments of a process, but only the process
 * reads this pipe.
 */
export function environmentArguments(environment: Readonly<Record<string, string>>): string {
  return Object.entries(environment)
    .map(([name, value]) => `--setenv\0${name}\0${value}\0`)
    .join('')
}

export interface Invocation {
  readonly argv: readonly string[]
  /** The contents for descriptors 3 and up, in the order in which `argv` refers to them. */
  readonly inputs: readonly Buffer[]
}

/**
 * Returns the arguments for one command in its own sandbox. bubblewrap reports its status on the descriptor after the
 * inputs.
 */
export function buildCommandInvocation(
  bwrap: string,
  workspace: ProjectFolder | undefined,
  environment: Readonly<Record<string, string>>,
  command: readonly string[],
  options: { readonly disableUserns: boolean },
): Invocation {
  const inputs: Buffer[] = []
  const descriptorOf = (content: Buffer | string): string => String(2 + inputs.push(Buffer.from(content)))
  // The workspace of a single command can contain sockets of the host.
  const filter = seccompFilter({ unixSockets: false })
  if (filter === undefined)
    throw new CraikError('unavailable', `Craik has no system call filter for ${process.arch}`, {
      hint: 'use a machine with an x64 or arm64 processor',
    })
  const argv = [
    bwrap,
    ...namespaceArguments('sandbox', options.disableUserns),
    '--die-with-parent',
    '--seccomp',
    descriptorOf(filter),
    ...systemArguments(),
    ...ownEtc(USER, HOME).flatMap(([path, content]) => ['--ro-bind-data', descriptorOf(content), path]),
    // If root could not give up its identity, the command could otherwise write to the kernel's settings.
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
    // The root is a tmpfs. It never gets more than the entries made above.
    '--remount-ro',
    '/',
    '--clearenv',
    '--args',
    descriptorOf(environmentArguments({ ...ENVIRONMENT_INSIDE, ...environment })),
    // The descriptor after the last input. There bubblewrap reports whether the command started.
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

/** Mounts an empty read-only file system over each covered folder. */
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
