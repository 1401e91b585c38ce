/**
 * Transitions of a sandbox as a whole. Each is decided and recorded before it starts, and its end is recorded whatever
 * the outcome.
 */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  type BeginTransitionInput,
  type BeginTransitionOutput,
  beginTransition,
  changeSandbox,
  type EndTransitionInput,
  endTransition,
} from '../lifecycle/tokens.ts'
import { LOSS } from '../lifecycle/transitions.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ManagerOptions } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'

type Begun = Exclude<BeginTransitionOutput, { effect: 'denied' }>

/** Throws when the transition is denied or the state does not allow it. Then nothing was done. */
export async function beginTransitionOf(
  { store, log }: ManagerOptions,
  caller: ManagerCaller,
  id: SandboxId,
  request: Pick<BeginTransitionInput, 'verb' | 'metadata' | 'unlessBusy' | 'admission' | 'links'>,
): Promise<Begun> {
  const answer = await store.write(beginTransition, {
    id,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: log.owner,
    ...request,
  })
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  return answer
}

/** Ends a transition. If the instance ended during it, the sandbox is lost afterwards. */
export async function endTransitionOf(
  { store }: ManagerOptions,
  registry: SandboxRegistry,
  input: EndTransitionInput,
): Promise<SandboxRecord> {
  const { record } = await store.write(endTransition, input)
  const isGone = (LOSS.from as readonly string[]).includes(record.state) && !isActive(registry, record.id)
  if (!isGone) return record
  return store.write(changeSandbox, { id: record.id, state: 'lost', notice: 'it ended by itself' })
}

function isActive(registry: SandboxRegistry, id: SandboxId): boolean {
  const active = registry.get(id)
  return active !== undefined && !active.session.closing.aborted
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Returns the error for the caller. An error that is not Craik's own is not shown as it is. */
export function transitionError(error: unknown, what: string): CraikError {
  return error instanceof CraikError ? error : new CraikError('internal', what, { cause: error })
}
