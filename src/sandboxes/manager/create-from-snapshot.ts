/** A new sandbox whose disk is that of a snapshot. The snapshot supplies every setting that the request leaves out. */
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
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import type { SnapshotManifest } from '../snapshots/snapshot-manifest.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import type { ManagerOptions } from './manager-options.ts'
import { disksOf } from './take-snapshot.ts'
import { fillDisk, requireFit } from './use-snapshot.ts'

/**
 * Returns the request unchanged without a snapshot. The policy is that of the snapshot's sandbox, unless another is
 * named.
 */
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
      // A snapshot never includes or names folders of the host.
      ...(backend === 'docker' && { network: 'none', mounts: [] }),
      ...request,
      ...(backend === 'docker' && { container, workspace }),
      limits: { ...snapshotLimits(spec), ...request.limits },
      environment: { ...spec.environment, ...request.environment },
      policyEnvelopeId: request.policyEnvelopeId ?? snapshot.policy_envelope_id,
    },
  }
}

/** The error names a missing image. The only substitute is a Craik image that was built from the same contents. */
export async function planContainerSpec(
  backend: SandboxBackend,
  request: ContainerRequest,
  snapshot: SnapshotRecord | undefined,
): Promise<ContainerSpec | undefined> {
  const pinned = snapshot?.manifest.image
  if (!pinned || snapshot === undefined) return backend.plan?.(request)
  let container: ContainerSpec | undefined
  try {
    container = await planPinned(backend, request, pinned)
  } catch (error) {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    throw new CraikError(
      'not_found',
      `snapshot ${snapshot.name} needs the image ${pinned.name} (${pinned.id}), which the engine does not have`,
      { hint: describeHowToGet(pinned.name), cause: error },
    )
  }
  requireFit(snapshot, {
    backend: snapshot.manifest.backend,
    workspace: snapshot.manifest.spec.workspace,
    image: container && { id: container.image, name: chooseImageName(container, pinned) },
  })
  return container && { ...container, imageName: pinned.name }
}

type Pinned = NonNullable<SnapshotManifest['image']>

async function planPinned(
  backend: SandboxBackend,
  request: ContainerRequest,
  { id, name }: Pinned,
): Promise<ContainerSpec | undefined> {
  try {
    return await backend.plan?.(request)
  } catch (error) {
    const isLost = error instanceof CraikError && error.code === 'not_found' && request.image === id
    if (!isLost || !isOwnImageName(name)) throw error
    return backend.plan?.({ ...request, image: name })
  }
}

/** An image that is requested by its id has that id as its name. */
function chooseImageName({ image, imageName }: ContainerSpec, { id, name }: Pinned): string {
  return image === id ? name : imageName
}

const BRING = 'copy that image to this engine:  docker save | docker load'

function describeHowToGet(name: string): string {
  return isOwnImageName(name)
    ? `rebuild it with the same packages:  craik image build [--apt PACKAGES]   or ${BRING}`
    : BRING
}

/**
 * Creates the first disk in the sandbox's folder, which has none yet. Returns a description of what was left out, if
 * anything.
 */
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
    { hint: `restore the snapshot instead:  craik sandbox restore ${manifest.origin.name} ${name}` },
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
