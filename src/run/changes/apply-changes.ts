/**
 * Applies a run’s changes to the workspace on the host. Each apply is decided and recorded first, and each file is
 * written completely or not at all.
 */
import { realpathSync } from 'node:fs'
import { join, relative } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { decide, policyDeniedError } from '../../policy/decide.ts'
import { operatorEnvelope } from '../../policy/operator-envelope.ts'
import type { PolicyProfile } from '../../policy/profiles.ts'
import type { OpenReceipt, ReceiptLog } from '../../receipts/receipt-log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { markApplied, type StoredChangeSet } from './change-set.ts'
import { sha256 } from './content-store.ts'
import { HostTree } from './host-tree.ts'
import { type Planned, planChanges } from './plan-changes.ts'
import { type Applied, applyChange, type OutcomeStatus } from './write-changes.ts'

export interface ApplyDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly clock: Clock
  readonly operator: string
}

export interface ApplyOptions {
  /** Only reports what an apply would do. */
  readonly dryRun?: boolean
  /** Skips conflicts and applies the rest. Without it, a conflict prevents the whole apply. */
  readonly skipConflicts?: boolean
  /**
   * Also applies files that programs on the host run or trust automatically, such as settings of editors and agents.
   */
  readonly withSettings?: boolean
  readonly profile?: PolicyProfile
  /** Called before anything is written. */
  readonly withGrant: <T>(use: (grantId: string) => Promise<T>) => Promise<T>
  readonly until: AbortSignal
}

export interface ApplyResult {
  readonly outcomes: readonly Applied[]
  readonly counts: Readonly<Record<OutcomeStatus, number>>
  /** The begin receipt. Absent when there was nothing to write. */
  readonly receiptId?: string
}

/** The capability and operation, as grants and rules name them. */
export const APPLY = { capability: 'repo.write', operation: 'apply' } as const
/** Held while changes are applied or removed. */
export const LOCK = 'apply.lock'
export const applyTarget = (runId: string) => `run/${runId}`

export async function applyChanges(
  deps: ApplyDeps,
  changeSet: StoredChangeSet,
  options: ApplyOptions,
): Promise<ApplyResult> {
  const { until, dryRun = false, skipConflicts = false } = options
  const lock = takeFileLock(join(changeSet.folder, LOCK), 'run lock')
  if (lock === undefined)
    throw new CraikError(
      'conflict',
      `another command is applying the changes of ${changeSet.record.run_id}`,
      {
        hint: 'wait until it ends, then try again',
      },
    )
  try {
    await using tree = await HostTree.open(changeSet.record.workspace)
    const own = ownFolderIn(changeSet.record.workspace, deps.home)
    const planned = await planChanges(tree, changeSet, { own, withSettings: options.withSettings }, until)
    const has = (status: string) => planned.some(({ verdict }) => verdict.status === status)
    if (dryRun || !has('ready') || (has('conflict') && !skipConflicts))
      return resultOf(planned.map(toApplied))
    return await options.withGrant(async (grantId) => {
      const open = await begin(deps, changeSet, grantId, options.profile ?? 'automation')
      return write(tree, changeSet, planned, open, until)
    })
  } finally {
    lock.release()
  }
}

/** Returns the path of Craik’s home in the workspace, if it is there. */
function ownFolderIn(workspace: string, home: Home): string | undefined {
  const way = relative(workspace, realpathSync(home.root))
  return way === '..' || way.startsWith('../') ? undefined : way
}

async function begin(
  deps: ApplyDeps,
  changeSet: StoredChangeSet,
  grantId: string,
  profile: PolicyProfile,
): Promise<OpenReceipt> {
  const { run_id, sandbox_id, workspace } = changeSet.record
  const envelope = await operatorEnvelope(deps, profile)
  const request = {
    operator: deps.operator,
    ...APPLY,
    target: applyTarget(run_id),
    path: workspace,
    scope: { run_id },
    policy_envelope_id: envelope.id,
    grant_id: grantId,
  }
  const decision = await decide(deps.store, deps.log, request, {
    kind: 'environment_decision',
    isolation: 'none',
    links: { policy_envelope_id: envelope.id, run_id, sandbox_id },
    digests: { changes: changeSet.digest },
  })
  if (decision.effect === 'deny') throw policyDeniedError(decision, request)
  return decision.open
}

async function write(
  tree: HostTree,
  changeSet: StoredChangeSet,
  planned: readonly Planned[],
  open: OpenReceipt,
  until: AbortSignal,
): Promise<ApplyResult> {
  const outcomes: Applied[] = []
  let isWhole = false
  try {
    for await (const outcome of applyChange(tree, changeSet, planned, until)) outcomes.push(outcome)
    isWhole = true
  } finally {
    const { counts } = resultOf(outcomes)
    const applied = outcomes.filter(({ status }) => status === 'applied').map(({ change }) => change)
    await open.end({
      status: isWhole && counts.failed === 0 ? 'passed' : 'failed',
      measures: Object.entries(counts).map(([name, value]) => ({ name, value, source: 'observed' })),
      digests: { changes: changeSet.digest, applied: `sha256:${sha256(JSON.stringify(applied))}` },
    })
  }
  const result = resultOf(outcomes)
  const { applied, already } = result.counts
  if (applied + already === planned.length) markApplied(changeSet)
  return { ...result, receiptId: open.id }
}

function toApplied({ change, verdict }: Planned): Applied {
  return { change, ...verdict }
}

function resultOf(outcomes: readonly Applied[]): ApplyResult {
  const counts = { applied: 0, ready: 0, already: 0, conflict: 0, left: 0, failed: 0 }
  for (const { status } of outcomes) counts[status]++
  return { outcomes, counts }
}
