/** What a place has to be started with. Whatever else is asked of a sandbox can be given to one that runs already. */
import { isDeepStrictEqual } from 'node:util'
import type {
  BackendName,
  ContainerRequest,
  ContainerSpec,
  HostUser,
  Isolation,
  LimitSpec,
  MountSpec,
  WorkspaceSpec,
} from '../backend.ts'

export interface Shape {
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly limits: LimitSpec
  readonly hostUser: 'allocate' | undefined
  /** As it was asked for. Of Craik's own image: the name of another may come to mean something else. */
  readonly container: Pick<ContainerRequest, 'runtime' | 'line'>
}

interface Request {
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly workspace: WorkspaceSpec
  readonly mounts: readonly MountSpec[]
  readonly limits: LimitSpec
  readonly hostUser: HostUser | 'allocate' | undefined
  readonly container: ContainerRequest | undefined
}

/** Undefined when only a place of its own will do: one that is shown a folder of the host, or is of another image. */
export function shapeOf({
  backend,
  isolation,
  workspace,
  mounts,
  limits,
  hostUser,
  container,
}: Request): Shape | undefined {
  if (
    workspace.mode !== 'copy' ||
    mounts.length > 0 ||
    typeof hostUser === 'object' ||
    container?.image !== undefined
  )
    return undefined
  const { runtime, line } = container ?? {}
  return {
    backend,
    isolation,
    limits,
    hostUser,
    container: { ...(runtime !== undefined && { runtime }), ...(line !== undefined && { line }) },
  }
}

export function isSame(a: Shape, b: Shape): boolean {
  return isDeepStrictEqual(a, b)
}

/** Whether what was started as `started`, and became `container`, is what would be started for `asked`. */
export function isFor(asked: Shape, started: Shape, container: ContainerSpec | null): boolean {
  const { container: wanted, ...others } = asked
  const { container: had, ...same } = started
  return (
    isDeepStrictEqual(others, same) &&
    // What was left out is chosen by what the engine can do: only the same omission leads to the same.
    (['runtime', 'line'] as const).every((name) =>
      wanted[name] === undefined ? had[name] === undefined : wanted[name] === container?.[name],
    )
  )
}
