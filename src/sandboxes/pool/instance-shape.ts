/**
 * The properties that must be fixed when an instance starts. Everything else in a request can be applied to a running
 * instance.
 */
import { isDeepStrictEqual } from 'node:util'
import type {
  BackendName,
  ContainerRequest,
  ContainerSpec,
  HostUser,
  HotMountFolders,
  Isolation,
  LimitSpec,
  MountSpec,
  VolumeSpec,
  WorkspaceSpec,
} from '../backend.ts'

export interface Shape {
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly limits: LimitSpec
  /** The owner of a workspace in place. */
  readonly hostUser: HostUser | 'allocate' | undefined
  /** The host folders that are mounted when a sandbox gets the instance. Null means none. */
  readonly late: HotMountFolders | null
  /** As in the request. Only for Craik's own image, because the name of another image can refer to a new one later. */
  readonly container: Pick<ContainerRequest, 'runtime' | 'line'>
}

interface Request {
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly workspace: WorkspaceSpec
  readonly mounts: readonly MountSpec[]
  readonly volumes: readonly VolumeSpec[]
  readonly limits: LimitSpec
  readonly hostUser: HostUser | 'allocate' | undefined
  readonly container: ContainerRequest | undefined
}

/** Returns which kinds of host folders an instance must be able to mount. */
export function hotMountsFor({
  workspace,
  mounts = [],
}: {
  readonly workspace: WorkspaceSpec
  readonly mounts?: readonly MountSpec[]
}): HotMountFolders | null {
  const hotMounts = { workspace: workspace.mode === 'in-place', mounts: mounts.length > 0 }
  return hotMounts.workspace || hotMounts.mounts ? hotMounts : null
}

/** Returns `undefined` when no warm instance can be used: for another image, or for volumes in the home. */
export function shapeOf({
  backend,
  isolation,
  workspace,
  mounts,
  volumes,
  limits,
  hostUser,
  container,
}: Request): Shape | undefined {
  if (container?.image !== undefined || volumes.length > 0) return undefined
  const { runtime, line } = container ?? {}
  return {
    backend,
    isolation,
    limits,
    hostUser,
    late: hotMountsFor({ workspace, mounts }),
    container: { ...(runtime !== undefined && { runtime }), ...(line !== undefined && { line }) },
  }
}

export function isSame(a: Shape, b: Shape): boolean {
  return isDeepStrictEqual(a, b)
}

/**
 * Returns whether an instance that started as `started`, with the resolved `container`, equals what Craik would start
 * for `request`.
 */
export function isFor(request: Shape, started: Shape, container: ContainerSpec | null): boolean {
  const { container: wanted, ...others } = request
  const { container: had, ...same } = started
  return (
    isDeepStrictEqual(others, same) &&
    // The engine's features decide missing fields, so only an instance with the same missing fields is equal.
    (['runtime', 'line'] as const).every((name) =>
      wanted[name] === undefined ? had[name] === undefined : wanted[name] === container?.[name],
    )
  )
}
