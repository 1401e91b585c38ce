/** The one way across: decided and written down before, done, and written down how it ended. */
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
type Asked = Pick<BeginOperationInput, 'job' | 'pinned' | 'metadata'>
type Allowed = Exclude<BeginOperationOutput, { effect: 'denied' }>
type Ended = Pick<EndOperationInput, 'status' | 'measures' | 'metadata'>

/** Throws when it is denied: the receipt of that is written, and nothing was done. */
export async function startOperation(
  { store, log }: Pick<ManagerOptions, 'store' | 'log'>,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: Asked,
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

/** Throws when it would be denied now; otherwise nothing has happened. */
export async function check(
  { store, log }: Pick<ManagerOptions, 'store' | 'log'>,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: Pick<Asked, 'metadata'>,
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
  /** Once; a second call does nothing. When the end cannot be written, that is logged: what was done is done. */
  end(how: Ended): Promise<void>
}

/** Begins what one call is all of: no job that lives on. */
export async function open(
  options: ManagerOptions,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: Asked,
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
          (error) => notWritten(options, session, error),
        )
      session.ending(ended)
      return ended
    },
  }
}

/** A question with one answer: its receipt ends when the answer is there. */
export async function ask<T>(
  options: ManagerOptions,
  session: BoundarySession,
  caller: ManagerCaller,
  operation: CrossingName,
  request: Asked,
  work: (boundary: Boundary, until: AbortSignal) => Promise<T>,
): Promise<T> {
  const release = session.hold()
  try {
    const operated = await open(options, session, caller, operation, request)
    let boundary: Boundary | undefined
    try {
      boundary = await session.boundary(caller.signal)
      const answer = await work(boundary, caller.signal)
      await operated.end({ status: 'passed' })
      return answer
    } catch (error) {
      await operated.end(failure(error, boundary !== undefined))
      throw error
    }
  } finally {
    release()
  }
}

/**
 * What broke off may have been done inside; what the sandbox refused was not. What never crossed the boundary says so,
 * because the boundary did not count it.
 */
export function failure(error: unknown, crossed: boolean): Pick<Ended, 'status' | 'metadata'> {
  const code = error instanceof CraikError ? error.code : 'internal'
  return {
    status: isCertain(error) || !crossed ? 'failed' : 'indeterminate',
    metadata: { error: code, ...(!crossed && { crossed: false }) },
  }
}

/** Whether the sandbox itself said no. Otherwise it is not known how far it got. */
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

/** Absent members are left out: JSON has none. */
export function toJson(value: object): Json {
  return JSON.parse(JSON.stringify(value)) as Json
}

function notWritten({ logger }: ManagerOptions, session: BoundarySession, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  logger('error', `could not record the end of an operation: ${message}`, { sandbox: session.id })
}
