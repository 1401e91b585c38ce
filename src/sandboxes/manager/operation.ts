/**
 * The only way across the boundary. An operation is decided and recorded before it runs, and its end is recorded after
 * it.
 */
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { Boundary } from '../boundary/boundary.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import {
  type BeginOperationInput,
  type BeginOperationOutput,
  type Begun,
  beginOperation,
  checkOperation,
  type EndOperationInput,
  endOperation,
} from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { BoundarySession } from './boundary-session.ts'
import type { ManagerOptions } from './manager-options.ts'

export type CrossingName = BeginOperationInput['operation']
type OperationRequest = Pick<BeginOperationInput, 'job' | 'pinned' | 'metadata'>
type Allowed = Exclude<BeginOperationOutput, { effect: 'denied' }>
type Ended = Pick<EndOperationInput, 'status' | 'measures' | 'metadata'>

/** Throws when the operation is denied. The denial is recorded, and nothing was done. */
export async function startOperation(
  { store, log }: Pick<ManagerOptions, 'store' | 'log'>,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: OperationRequest,
): Promise<Allowed> {
  const answer = await store.write(beginOperation, {
    id: session.id,
    operation,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    epoch: session.epoch,
    owner: log.owner,
    ...request,
  })
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  return answer
}

/** Throws when the operation would be denied now. Otherwise nothing has happened. */
export async function check(
  { store, log }: Pick<ManagerOptions, 'store' | 'log'>,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: Pick<OperationRequest, 'metadata'>,
): Promise<void> {
  const denied = await store.write(checkOperation, {
    id: session.id,
    operation,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    epoch: session.epoch,
    owner: log.owner,
    ...request,
  })
  if (denied !== undefined) throw deniedOperationError(denied)
}

export interface OpenOperation {
  readonly begun: Begun
  /**
   * Records the end once; a second call does nothing. If the end cannot be written, that is only logged, because the
   * operation is done.
   */
  end(how: Ended): Promise<void>
}

/** Begins an operation that consists of one call, unlike a job. */
export async function openOperation(
  options: ManagerOptions,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: OperationRequest,
): Promise<OpenOperation> {
  const { begun } = await startOperation(options, session, caller, operation, request)
  const beganAtMs = options.clock.nowMs()
  let ended: Promise<void> | undefined
  return {
    begun,
    end({ status, measures = [], metadata }) {
      ended ??= options.store
        .write(endOperation, {
          id: session.id,
          begun,
          status,
          measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs), ...measures],
          ...(metadata && { metadata }),
        })
        .then(
          () => {},
          (error) => logUnrecordedEnd(options, session, error),
        )
      session.waitBeforeClose(ended)
      return ended
    },
  }
}

/** Sends a request that has one response. Its receipt ends when the response has arrived. */
export async function requestSidecar<T>(
  options: ManagerOptions,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: OperationRequest,
  work: (boundary: Boundary, until: AbortSignal) => Promise<T>,
): Promise<T> {
  const release = session.hold()
  try {
    const operated = await openOperation(options, session, caller, operation, request)
    let boundary: Boundary | undefined
    try {
      boundary = await session.boundary(caller.signal)
      const answer = await work(boundary, caller.signal)
      await operated.end({ status: 'passed' })
      return answer
    } catch (error) {
      await operated.end(failedOperation(error, boundary !== undefined))
      throw error
    }
  } finally {
    release()
  }
}

/**
 * Returns how a failed operation ends. If it broke off, the sandbox may have done it; if the sandbox refused it, it did
 * not. An operation that never crossed the boundary is marked, because the boundary did not count it.
 */
export function failedOperation(error: unknown, crossed: boolean): Pick<Ended, 'status' | 'metadata'> {
  const code = error instanceof CraikError ? error.code : 'internal'
  return {
    status: isCertain(error) || !crossed ? 'failed' : 'indeterminate',
    metadata: { error: code, ...(!crossed && { crossed: false }) },
  }
}

/** Returns whether the sandbox itself refused the operation. Otherwise it is unknown how far the operation got. */
export function isCertain(error: unknown): boolean {
  return (
    error instanceof CraikError &&
    !['boundary_failed', 'interrupted', 'internal', 'timeout', 'sandbox_stopped'].includes(error.code)
  )
}

export function observedMeasure(name: string, value: number): Measure {
  return { name, value: Math.max(0, Math.round(value)), source: 'observed' }
}

export function claimedMeasure(name: string, value: number): Measure {
  return { name, value, source: 'claimed' }
}

/** Leaves out members that are `undefined`, which JSON does not have. */
export function toJson(value: object): Json {
  return JSON.parse(JSON.stringify(value)) as Json
}

function logUnrecordedEnd({ logger }: ManagerOptions, session: BoundarySession, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  logger('error', `could not record the end of an operation: ${message}`, { sandbox: session.id })
}
