/** Transitions of a sandbox as a whole. Each begins in one transaction with its decision, and ends in another. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import { OPERATIONS } from '../operations.ts'
import { requireCapacity } from './admission.ts'
import { closeLeftEpochs } from './count-procedures.ts'
import { commitDecision, evaluateSandbox, requestAbout, sandboxLinks } from './decide-sandbox.ts'
import { isFree } from './recovery-procedures.ts'
import { MAX_SANDBOXES, type SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type {
  BeginTransitionInput,
  BeginTransitionOutput,
  EndTransitionInput,
  EndTransitionOutput,
} from './tokens.ts'
import {
  notPossible,
  outcomeOf,
  type SandboxState,
  STATES,
  TRANSITIONS,
  type Verb,
  verbFor,
  verbInProgress,
} from './transitions.ts'

const MAX_NOTICE = 500

export async function beginTransition(
  records: SandboxRecords,
  input: BeginTransitionInput,
): Promise<BeginTransitionOutput> {
  const record = await records.sandbox(input.id)
  const state = stateToKeep(record, input)
  const verb = verbFor(input.verb, state)
  const { operation, from, already, during } = TRANSITIONS[verb]
  const evaluated = await evaluateSandbox(records, requestAbout(record, OPERATIONS[operation], input))
  const isDone = already.includes(state)
  // Only a caller who may do it learns the sandbox's state.
  if (evaluated.isAllowed) await requirePossible(records, record, input, verb, isDone || from.includes(state))
  const settled = await commitDecision(
    records,
    evaluated,
    {
      links: { ...sandboxLinks(record), ...input.links },
      ...(record.place && { isolation: record.place.isolation }),
      metadata: { ...input.metadata, from: state },
    },
    input.owner,
  )
  if (settled.effect === 'denied') return settled
  const { begun } = settled
  if (isDone) {
    const outcome = { status: 'passed', metadata: { already: true } } as const
    await records.sealer.append(records.tables, endDraft(begun.id, begun.begin, outcome))
    return { effect: 'already', record }
  }
  if (record.pending !== null) await records.endPending(record.pending, { status: 'indeterminate' })
  const pending = { begin_id: begun.id, begin: begun.begin, owner: input.owner, from: state }
  return {
    effect: 'allowed',
    verb,
    record: await records.put({ ...record, state: during, pending }, 'update'),
    begun,
  }
}

/**
 * Returns the state of the sandbox. If a transition was abandoned, returns the state in which it will be recorded as
 * ended.
 */
function stateToKeep({ state, pending }: SandboxRecord, input: BeginTransitionInput): SandboxState {
  if (pending === null || input.takeOver !== true || !isFree(pending.owner, input.owner)) return state
  const verb = verbInProgress(state, pending.from)
  const outcome = verb && outcomeOf(verb, 'indeterminate', pending.from)
  return outcome === undefined || outcome === 'removed' ? 'lost' : outcome
}

async function requirePossible(
  records: SandboxRecords,
  record: SandboxRecord,
  input: BeginTransitionInput,
  verb: Verb,
  fits: boolean,
): Promise<void> {
  const isTakenOver = input.takeOver === true && record.pending !== null
  if (!fits || (record.pending !== null && !(isTakenOver && isFree(record.pending.owner, input.owner))))
    throw notPossible(verb, record)
  if (input.unlessBusy === true && (await records.openJobs(record.id)).length > 0)
    throw new CraikError('conflict', `sandbox ${record.name} has running jobs`, {
      hint: `list the jobs:  craik sandbox logs ${record.name}`,
    })
  if (input.admission !== undefined && !STATES[record.state].usesCapacity) {
    const rows = await records.tables.sandboxes.list({}, 2 * MAX_SANDBOXES)
    requireCapacity(rows, record.spec.limits, input.admission, 'resume')
  }
}

export async function endTransition(
  records: SandboxRecords,
  input: EndTransitionInput,
): Promise<EndTransitionOutput> {
  const { id, status, place: instance, measures } = input
  const record = await records.sandbox(id)
  const { pending } = record
  const verb = pending === null ? undefined : verbInProgress(record.state, pending.from)
  if (pending === null || verb === undefined)
    throw new CraikError('conflict', `sandbox ${id} has no operation in progress: it is ${record.state}`, {
      hint: `show the sandbox:  craik sandbox show ${id}`,
    })
  const to = outcomeOf(verb, status, pending.from, instance !== undefined)
  if (to === 'removed') throw new CraikError('internal', `the end of ${verb} removes the record`)
  const hasInstance = STATES[to].usesCapacity
  if (!hasInstance) await endInstance(records, id, to)
  const receipt = await records.endPending(pending, {
    status,
    ...(instance && { isolation: instance.isolation }),
    ...(measures && { measures }),
    metadata: {
      ...input.metadata,
      ...(instance && { ...instance.enforced, host_uid: instance.hostUid }),
      to,
    },
  })
  const { nowMs } = records
  const wasStopped = pending.from !== null && !STATES[pending.from].usesCapacity
  const changed: SandboxRecord = {
    ...record,
    state: to,
    pending: null,
    ...(instance !== undefined && { place: instance, started_at_ms: nowMs }),
    ...(to === 'stopped' && { place: null }),
    ...(hasInstance ? { active_at_ms: nowMs } : {}),
    stopped_at_ms: hasInstance ? null : wasStopped ? (record.stopped_at_ms ?? nowMs) : nowMs,
    notice: truncateNotice(input.notice),
  }
  return { record: await records.put(changed, 'update'), receipt }
}

/**
 * Ends the jobs of an instance. It runs in the transaction after which no job begins, so it also finds jobs that began
 * too late for any process to follow them.
 */
export async function endInstance(
  records: SandboxRecords,
  id: SandboxId,
  to: SandboxState | 'removed',
): Promise<void> {
  for (const job of await records.openJobs(id)) await records.endJob(job, JOB_ENDS[to] ?? JOB_ENDS.lost!)
  await closeLeftEpochs(records, { id })
}

/** The ends of a sandbox's jobs, by the state that the sandbox gets. */
const JOB_ENDS: Readonly<Partial<Record<SandboxState | 'removed', Parameters<SandboxRecords['endJob']>[1]>>> =
  {
    stopped: { status: 'failed', metadata: { outcome: 'stopped' } },
    lost: { status: 'indeterminate', metadata: { outcome: 'lost' } },
    removed: { status: 'indeterminate', metadata: { deleted: true } },
  }

export function truncateNotice(notice: string | null | undefined): string | null {
  return notice?.slice(0, MAX_NOTICE).toWellFormed() ?? null
}
