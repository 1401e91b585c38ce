/**
 * Builds the arguments that define what bubblewrap shows a sandbox with a sidecar: read-only programs, its own disk,
 * and one folder with a socket.
 */
import { CraikError } from '../../../errors.ts'
import { GATEWAY_PORT, INSIDE, SIDECAR_ENV, SIDECAR_NODE_FLAGS } from '../../../sidecar/protocol.ts'
import type { LimitSpec } from '../../backend.ts'
import { harnessInside } from '../../harness-package.ts'
import { INSIDE_ETC } from '../../runtime.ts'
import { seccompFilter } from '../../seccomp/filter.ts'
import {
  environmentArguments,
  type Invocation,
  namespaceArguments,
  ownEtc,
  systemArguments,
} from './bubblewrap.ts'
import { type ResourceLimits, resourceArguments } from './resource-limits.ts'
import type { ProtectedName } from './workspace-guard.ts'

/** The folder for spilled output: on the sandbox's disk, but outside its home. */
const SPILL_INSIDE = '/var/spool/craik'
const USER_INSIDE = 'agent'

/** Craik fills the cache once, when it creates the runtime. The sidecar does not pass the variable on to jobs. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: `${INSIDE.runtime}/compile-cache` } as const

const MIB = 1024 * 1024
const SHM_BYTES = 256 * MIB
const RUN_BYTES = 16 * MIB
const MAX_TMP_BYTES = 1024 * MIB

/** The descriptors on which bubblewrap and the first program in the sandbox report to Craik. */
const INFO_DESCRIPTOR = 3
const STARTED_DESCRIPTOR = 4
const FIRST_INPUT = 5

/** Reports that bubblewrap is done, closes Craik's descriptor, and becomes the program. */
const ANNOUNCE = `echo >&${STARTED_DESCRIPTOR} && exec ${STARTED_DESCRIPTOR}>&- && exec "$@"`

export interface LaunchSources {
  readonly home: string
  readonly spill: string
  readonly socketFolder: string
  readonly runtime: string
  /** The folder with a subfolder for each harness, and the ids of the harnesses to mount. */
  readonly harnesses: { readonly folder: string; readonly ids: readonly string[] }
  /** The host folder of each volume, and its location in the sandbox home. */
  readonly volumes: readonly { readonly folder: string; readonly at: string }[]
  /** For a workspace in place: its location, and the names in it that are mounted over themselves. */
  readonly workspace:
    | {
        readonly folder: string
        readonly guarded: readonly ProtectedName[]
        readonly exclude: string | undefined
      }
    | undefined
}

interface InstancePrograms {
  readonly bwrap: string
  readonly disableUserns: boolean
  readonly prlimit: string
  readonly tini: string | undefined
}

export interface LaunchPlan {
  readonly sources: LaunchSources
  readonly programs: InstancePrograms
  readonly limits: LimitSpec
  readonly resources: ResourceLimits
  /** The last argument. It shows the host which sandbox the process belongs to. */
  readonly mark: string
}

/** Returns the arguments, and what they read from descriptors 5 and up. */
export function buildInvocation(options: LaunchPlan): Invocation {
  const { sources, programs, limits } = options
  const inputs: Buffer[] = []
  const descriptorOf = (content: Buffer | string) =>
    String(FIRST_INPUT - 1 + inputs.push(Buffer.from(content)))
  const filter = seccompFilter({ unixSockets: true })
  if (filter === undefined)
    throw new CraikError('unavailable', `Craik has no system call filter for ${process.arch}`, {
      hint: 'use a machine with an x64 or arm64 processor',
    })
  const argv = [
    programs.bwrap,
    ...namespaceArguments('sandbox', programs.disableUserns),
    ...(programs.tini === undefined ? [] : ['--as-pid-1']),
    '--info-fd',
    String(INFO_DESCRIPTOR),
    '--seccomp',
    descriptorOf(filter),
    ...systemArguments(),
    ...ownEtc(USER_INSIDE, INSIDE.home).flatMap(([path, content]) => [
      '--ro-bind-data',
      descriptorOf(content),
      path,
    ]),
    ...Object.entries(INSIDE_ETC).flatMap(([path, to]) => ['--symlink', `${INSIDE.runtime}/${to}`, path]),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    ...tmpfs('/tmp', Math.min(MAX_TMP_BYTES, Math.floor(limits.memoryBytes / 2)), '1777'),
    ...tmpfs('/run', RUN_BYTES, '0755'),
    ...tmpfs('/dev/shm', SHM_BYTES, '1777'),
    '--remount-ro',
    '/dev',
    '--ro-bind',
    sources.runtime,
    INSIDE.runtime,
    ...sources.harnesses.ids.flatMap((id) => [
      '--ro-bind',
      `${sources.harnesses.folder}/${id}`,
      harnessInside(id),
    ]),
    '--ro-bind',
    sources.socketFolder,
    INSIDE.socketFolder,
    '--bind',
    sources.home,
    INSIDE.home,
    '--bind',
    sources.spill,
    SPILL_INSIDE,
    ...sources.volumes.flatMap(({ folder, at }) => ['--bind', folder, `${INSIDE.home}/${at}`]),
    ...workspaceArguments(sources.workspace),
    '--symlink',
    '/tmp',
    '/var/tmp',
    '--remount-ro',
    '/',
    '--chdir',
    INSIDE.home,
    '--clearenv',
    '--args',
    descriptorOf(environmentArguments(sidecarEnvironment())),
    '--',
    ...insideCommand(options),
  ]
  return { argv, inputs }
}

/**
 * Returns the programs of the sandbox in order. Each becomes the next one, until the sidecar is the only child of the
 * first process.
 */
function insideCommand({ programs, resources, mark }: LaunchPlan): string[] {
  return [
    '/bin/sh',
    '-c',
    ANNOUNCE,
    'sh',
    programs.prlimit,
    ...resourceArguments(resources),
    '--',
    ...(programs.tini === undefined ? [] : [programs.tini, '--']),
    ...sidecarCommand(INSIDE.runtime),
    mark,
  ]
}

export function sidecarCommand(runtime: string): string[] {
  return [`${runtime}/node`, ...SIDECAR_NODE_FLAGS, `${runtime}/sidecar.mjs`]
}

function sidecarEnvironment(): Record<string, string> {
  return {
    [SIDECAR_ENV.socket]: `${INSIDE.socketFolder}/${INSIDE.socketName}`,
    [SIDECAR_ENV.home]: INSIDE.home,
    [SIDECAR_ENV.workspace]: INSIDE.workspace,
    [SIDECAR_ENV.gatewayPort]: String(GATEWAY_PORT),
    [SIDECAR_ENV.spill]: SPILL_INSIDE,
    ...COMPILE_CACHE,
  }
}

function tmpfs(path: string, bytes: number, permissions: string): string[] {
  return ['--perms', permissions, '--size', String(bytes), '--tmpfs', path]
}

/** Each protected name is a separate mount, so it can be neither renamed nor replaced. */
function workspaceArguments(workspace: LaunchSources['workspace']): string[] {
  if (workspace === undefined) return []
  return [
    '--bind',
    workspace.folder,
    INSIDE.workspace,
    ...workspace.guarded.flatMap(({ path, writable }) => [
      writable ? '--bind' : '--ro-bind',
      `${workspace.folder}/${path}`,
      `${INSIDE.workspace}/${path}`,
    ]),
    ...(workspace.exclude === undefined
      ? []
      : ['--ro-bind', workspace.exclude, `${INSIDE.workspace}/.git/info/exclude`]),
  ]
}
