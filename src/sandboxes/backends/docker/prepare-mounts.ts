/** Prepares the host folders and engine volumes that a container mounts. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { ContainerSpec, HostUser, SandboxSpec } from '../../backend.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'
import type { ExpectedVolume } from '../../volumes/verify-volumes.ts'
import { openVolumes } from '../../volumes/volume-folders.ts'
import { writeExclude } from '../process/git-exclude.ts'
import { checkInPlace, type InPlace } from '../process/in-place.ts'
import { instanceFolders } from '../process/instance-folders.ts'
import type { ExpectedWorkspace } from '../process/verify-workspace.ts'
import { guardWorkspace, readCreatedNames } from '../process/workspace-guard.ts'
import { type ContainerMount, SPILL_INSIDE } from './container-config.ts'
import { spillVolume } from './container-names.ts'
import { openDisk } from './disk.ts'
import type { Engine } from './engine/engine.ts'
import { makeVolume } from './engine-volumes.ts'
import { openHotMounts } from './hot-mount-folder.ts'
import { type CheckedMount, checkMounts } from './mounts.ts'
import { writeEtc } from './own-etc.ts'
import { diskVolume } from './volume-names.ts'

export interface MountContext {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
}

export interface PreparedMounts {
  readonly shown: readonly ContainerMount[]
  readonly workspace: ExpectedWorkspace | undefined
  readonly mounts: readonly CheckedMount[]
  readonly volumes: readonly ExpectedVolume[]
  readonly isDiskBounded: boolean
}

/** Creates what the container mounts. Removing the sandbox instance, or a sweep, removes it. */
export async function prepareMounts(
  engine: Engine,
  spec: SandboxSpec,
  container: ContainerSpec,
  user: HostUser,
  diskBytes: number | undefined,
  around: MountContext,
): Promise<PreparedMounts> {
  const socket = container.line === 'socket' ? [await socketFolder(spec.folder)] : []
  if (container.state === 'volume') {
    if (spec.workspace.mode === 'in-place') throw cannotShare()
    if ((spec.mounts ?? []).length > 0) throw cannotShow()
    if ((spec.volumes ?? []).length > 0) throw cannotKeep()
    const disk = await ownVolumes(engine, spec, around.craikHome)
    const none = { workspace: undefined, mounts: [], volumes: [], isDiskBounded: false }
    return { shown: [...socket, ...disk], ...none }
  }
  // Check the folders before anything is created for them.
  const { inPlace, mounts } = await checkFolders(spec, user, around)
  const volumes = await openVolumes(spec.volumes ?? [], process.geteuid?.() === 0 ? user : undefined)
  const disk = await openDisk(spec.folder, user, diskBytes, volumes)
  const etc = writeEtc(spec.folder, user).map((one) => bind(one.source, one.target, true))
  const guarded = inPlace && guardWorkspace(spec.folder, inPlace, user)
  return {
    shown: [
      ...socket,
      ...etc,
      bind(disk.home, INSIDE.home, false),
      bind(disk.spill, SPILL_INSIDE, false),
      ...volumes.map(({ folder, at }) => bind(folder, `${INSIDE.home}/${at}`, false)),
      ...(inPlace ? [{ ...bind(inPlace.folder, INSIDE.workspace, false), deep: true }] : []),
      ...(guarded ?? []).map(({ path, writable }) => ({
        ...bind(join(inPlace!.folder, path), `${INSIDE.workspace}/${path}`, !writable),
        deep: writable,
      })),
      ...(inPlace ? excludeFile(spec.folder, inPlace.folder) : []),
      ...mounts.map(({ folder, at }) => bind(folder, at, true)),
      ...(spec.late ? await openHotMounts(spec.folder, spec.late) : []),
    ],
    mounts,
    volumes,
    workspace: inPlace && { identity: inPlace.identity, guarded: guarded ?? [] },
    isDiskBounded: disk.isBounded,
  }
}

export interface CheckedFolders {
  readonly inPlace: InPlace | undefined
  readonly mounts: readonly CheckedMount[]
}

/** Returns the requested host folders. Throws when one of them must not be mounted. */
export async function checkFolders(
  { workspace, mounts = [] }: SandboxSpec,
  user: HostUser,
  around: MountContext,
): Promise<CheckedFolders> {
  return {
    inPlace: workspace.mode === 'in-place' ? await checkInPlace(workspace.folder, user, around) : undefined,
    mounts: await checkMounts(mounts, around),
  }
}

function cannotShare(): CraikError {
  return new CraikError('unavailable', 'this engine cannot use a folder of this machine in place', {
    hint: COPY_INSTEAD,
  })
}

function cannotShow(): CraikError {
  return new CraikError('unavailable', 'this engine cannot mount folders of this machine', {
    hint: 'leave out --mount and copy the files instead:  craik sandbox cp FOLDER ID:',
  })
}

function cannotKeep(): CraikError {
  return new CraikError('unavailable', 'this engine cannot mount Craik’s volumes', {
    hint: 'leave out --volume, or use an engine that runs as root on this machine',
  })
}

function bind(source: string, target: string, readOnly: boolean): ContainerMount {
  return { type: 'bind', source, target, readOnly }
}

async function socketFolder(folder: string): Promise<ContainerMount> {
  const { socket } = instanceFolders(folder)
  await mkdir(socket, { recursive: true, mode: 0o755 })
  return bind(socket, INSIDE.socketFolder, true)
}

function excludeFile(folder: string, workspace: string): ContainerMount[] {
  const path = writeOwnExclude(folder, workspace)
  return path === undefined ? [] : [bind(path, `${INSIDE.workspace}/${EXCLUDE}`, true)]
}

/** The file in a repository with patterns that git ignores. */
export const EXCLUDE = '.git/info/exclude'

/** Writes the file to mount over it. Returns undefined when none exists to cover. */
export function writeOwnExclude(folder: string, workspace: string): string | undefined {
  const path = join(folder, 'etc/git-exclude')
  return writeExclude(readCreatedNames(folder), workspace, path) ? path : undefined
}

async function ownVolumes(
  engine: Engine,
  spec: SandboxSpec,
  craikHome: string,
): Promise<readonly ContainerMount[]> {
  const wanted = [
    [diskVolume(spec), INSIDE.home],
    [spillVolume(spec.id), SPILL_INSIDE],
  ] as const
  for (const [name] of wanted) await makeVolume(engine, name, spec.id, craikHome)
  return wanted.map(([source, target]) => ({ type: 'volume', source, target, readOnly: false }))
}
