/** A new sandbox whose disk is that of a snapshot: what was not asked for is as the snapshot says. */
import { CraikError } from '../../errors.ts'
import {
  type ContainerRequest,
  type ContainerSpec,
  isOwnImageName,
  type LimitSpec,
  type SandboxBackend,
  type SandboxSpec,
} from '../backend.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { CreateRequest, ManagerCaller } from '../manager-types.ts'
import type { SnapshotManifest } from '../snapshots/manifest.ts'
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import type { ManagerOptions } from './options.ts'
import { disksOf } from './snapshot.ts'
import { fillDisk, requireFit } from './use-snapshot.ts'

/** Without a snapshot, as it is. Under the same policy as the sandbox that the snapshot is of, unless another is named. */
export async function requestFrom(
  options: ManagerOptions,
  { from, ...request }: CreateRequest,
): Promise<{ readonly request: CreateRequest; readonly snapshot: SnapshotRecord | undefined }> {
  if (from === undefined) return { request, snapshot: undefined }
  const snapshot = await getSnapshot(options, from)
  const { backend, image, spec } = snapshot.manifest
  requireHasWorkspace(snapshot)
  const { workspace = { mode: 'copy' } } = request
  requireFit(snapshot, { backend: request.backend, workspace: workspace.mode, image: undefined })
  const container: ContainerRequest = {
    ...(spec.runtime !== null && { runtime: spec.runtime }),
    ...(image !== null && { image: image.id }),
    ...request.container,
  }
  return {
    snapshot,
    request: {
      // A snapshot holds no folders of the machine, and never names any.
      ...(backend === 'docker' && { network: 'none', mounts: [] }),
      ...request,
      ...(backend === 'docker' && { container, workspace }),
      limits: { ...snapshotLimits(spec), ...request.limits },
      environment: { ...spec.environment, ...request.environment },
      policyEnvelopeId: request.policyEnvelopeId ?? snapshot.policy_envelope_id,
    },
  }
}

/** An image that is gone is named: none is taken in its stead but one of Craik's that was made of the same. */
export async function planned(
  backend: SandboxBackend,
  asked: ContainerRequest,
  snapshot: SnapshotRecord | undefined,
): Promise<ContainerSpec | undefined> {
  const pinned = snapshot?.manifest.image
  if (!pinned || snapshot === undefined) return backend.plan?.(asked)
  let container: ContainerSpec | undefined
  try {
    container = await planPinned(backend, asked, pinned)
  } catch (error) {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    throw new CraikError(
      'not_found',
      `snapshot ${snapshot.name} needs the image ${pinned.name} (${pinned.id}), which the engine does not have`,
      { hint: howToGet(pinned.name), cause: error },
    )
  }
  requireFit(snapshot, {
    backend: snapshot.manifest.backend,
    workspace: snapshot.manifest.spec.workspace,
    image: container && { id: container.image, name: pinnedName(container, pinned) },
  })
  return container && { ...container, imageName: pinned.name }
}

type Pinned = NonNullable<SnapshotManifest['image']>

async function planPinned(
  backend: SandboxBackend,
  asked: ContainerRequest,
  { id, name }: Pinned,
): Promise<ContainerSpec | undefined> {
  try {
    return await backend.plan?.(asked)
  } catch (error) {
    const isLost = error instanceof CraikError && error.code === 'not_found' && asked.image === id
    if (!isLost || !isOwnImageName(name)) throw error
    return backend.plan?.({ ...asked, image: name })
  }
}

/** Asked for by its id, it would be called by that. */
function pinnedName({ image, imageName }: ContainerSpec, { id, name }: Pinned): string {
  return image === id ? name : imageName
}

const BRING = 'copy that image to this engine:  docker save | docker load'

function howToGet(name: string): string {
  return isOwnImageName(name)
    ? `rebuild it with the same packages:  craik image build [--apt PACKAGES]   or ${BRING}`
    : BRING
}

/** Its folder is there, and no disk in it. What was left out is told in words, if anything was. */
export async function firstDisk(
  options: ManagerOptions,
  caller: ManagerCaller,
  snapshot: SnapshotRecord,
  spec: SandboxSpec,
  backend: SandboxRecord['backend'],
): Promise<string | undefined> {
  const leftOut = await fillDisk(options, caller, snapshot, spec, backend)
  await disksOf(options, { backend }).exchange(spec)
  return leftOut
}

function requireHasWorkspace({ name, manifest }: SnapshotRecord): void {
  if (manifest.spec.workspace === 'copy') return
  throw new CraikError(
    'conflict',
    `snapshot ${name} contains no workspace: sandbox ${manifest.origin.name} works in a host folder`,
    { hint: `restore it instead:  craik sandbox restore ${manifest.origin.name} ${name}` },
  )
}

export function snapshotLimits({ limits }: SnapshotManifest['spec']): LimitSpec {
  return {
    memoryBytes: limits.memory_bytes,
    processes: limits.processes,
    ...(limits.cpu_millis !== undefined && { cpuMillis: limits.cpu_millis }),
    ...(limits.disk_bytes !== undefined && { diskBytes: limits.disk_bytes }),
  }
}
