/** What a place has to be started with. Whatever else is asked of a sandbox can be given to one that runs already. */
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
  /** Of a workspace in place, its owner. */
  readonly hostUser: HostUser | 'allocate' | undefined
  /** What of the host it is shown once it is a sandbox's; null: nothing. */
  readonly late: HotMountFolders | null
  /** As it was asked for. Of Craik's own image: the name of another may come to mean something else. */
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

/** Which folders of the host a place has to be ready for. */
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

/** Undefined when only a place of its own will do: one of another image, or with volumes in its home. */
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

/** Whether what was started as `started`, and became `container`, is what would be started for `asked`. */
export function isFor(request: Shape, started: Shape, container: ContainerSpec | null): boolean {
  const { container: wanted, ...others } = request
  const { container: had, ...same } = started
  return (
    isDeepStrictEqual(others, same) &&
    // What was left out is chosen by what the engine can do: only the same omission leads to the same.
    (['runtime', 'line'] as const).every((name) =>
      wanted[name] === undefined ? had[name] === undefined : wanted[name] === container?.[name],
    )
  )
}
