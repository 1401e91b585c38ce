/** Brings a run’s changes over into the workspace on this machine: decided first, receipted, each file whole or not at all. */
import { realpathSync } from 'node:fs'
import { join, relative } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { decide, deniedError } from '../../policy/decide.ts'
import { operatorEnvelope } from '../../policy/operator-envelope.ts'
import type { PolicyProfile } from '../../policy/profiles.ts'
import type { OpenReceipt, ReceiptLog } from '../../receipts/log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { markApplied, type StoredChangeSet } from './change-set.ts'
import { sha256 } from './content-store.ts'
import { HostTree } from './host-tree.ts'
import { type Planned, planChanges } from './plan.ts'
import { type Applied, bringOver, type OutcomeStatus } from './put.ts'

export interface ApplyDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly clock: Clock
  readonly operator: string
}

export interface ApplyOptions {
  /** Only tells what would be done. */
  readonly dryRun?: boolean
  /** What conflicts stays as it is, and the rest is brought over; without it nothing is. */
  readonly skipConflicts?: boolean
  /** Also what programs of this machine run or trust unasked, such as settings of editors and agents. */
  readonly withSettings?: boolean
  readonly profile?: PolicyProfile
  /** Asked for when something is to be written. */
  readonly withGrant: <T>(use: (grantId: string) => Promise<T>) => Promise<T>
  readonly until: AbortSignal
}

export interface ApplyResult {
  readonly outcomes: readonly Applied[]
  readonly counts: Readonly<Record<OutcomeStatus, number>>
  /** Of the beginning; none when nothing was to be written. */
  readonly receiptId?: string
}

/** What a grant and a rule name. */
export const APPLY = { capability: 'repo.write', operation: 'apply' } as const
/** Of whoever brings the changes over, or removes them. */
export const LOCK = 'apply.lock'
export const applyTarget = (runId: string) => `run/${runId}`

export async function applyChanges(
  place: ApplyDeps,
  kept: StoredChangeSet,
  options: ApplyOptions,
): Promise<ApplyResult> {
  const { until, dryRun = false, skipConflicts = false } = options
  const lock = takeFileLock(join(kept.folder, LOCK), 'run lock')
  if (lock === undefined)
    throw new CraikError('conflict', `another command is applying the changes of ${kept.record.run_id}`, {
      hint: 'wait until it ends, then try again',
    })
  try {
    await using tree = await HostTree.open(kept.record.workspace)
    const own = ownFolderIn(kept.record.workspace, place.home)
    const planned = await planChanges(tree, kept, { own, withSettings: options.withSettings }, until)
    const has = (status: string) => planned.some(({ verdict }) => verdict.status === status)
    if (dryRun || !has('ready') || (has('conflict') && !skipConflicts))
      return resultOf(planned.map(unwritten))
    return await options.withGrant(async (grantId) => {
      const open = await begin(place, kept, grantId, options.profile ?? 'automation')
      return write(tree, kept, planned, open, until)
    })
  } finally {
    lock.release()
  }
}

/** The path of Craik’s home in the workspace, where it lies there. */
function ownFolderIn(workspace: string, home: Home): string | undefined {
  const way = relative(workspace, realpathSync(home.root))
  return way === '..' || way.startsWith('../') ? undefined : way
}

async function begin(
  place: ApplyDeps,
  kept: StoredChangeSet,
  grantId: string,
  profile: PolicyProfile,
): Promise<OpenReceipt> {
  const { run_id, sandbox_id, workspace } = kept.record
  const envelope = await operatorEnvelope(place, profile)
  const request = {
    operator: place.operator,
    ...APPLY,
    target: applyTarget(run_id),
    path: workspace,
    scope: { run_id },
    policy_envelope_id: envelope.id,
    grant_id: grantId,
  }
  const decision = await decide(place.store, place.log, request, {
    kind: 'environment_decision',
    isolation: 'none',
    links: { policy_envelope_id: envelope.id, run_id, sandbox_id },
    digests: { changes: kept.digest },
  })
  if (decision.effect === 'deny') throw deniedError(decision, request)
  return decision.open
}

async function write(
  tree: HostTree,
  kept: StoredChangeSet,
  planned: readonly Planned[],
  open: OpenReceipt,
  until: AbortSignal,
): Promise<ApplyResult> {
  const outcomes: Applied[] = []
  let isWhole = false
  try {
    for await (const outcome of bringOver(tree, kept, planned, until)) outcomes.push(outcome)
    isWhole = true
  } finally {
    const { counts } = resultOf(outcomes)
    const applied = outcomes.filter(({ status }) => status === 'applied').map(({ change }) => change)
    await open.end({
      status: isWhole && counts.failed === 0 ? 'passed' : 'failed',
      measures: Object.entries(counts).map(([name, value]) => ({ name, value, source: 'observed' })),
      digests: { changes: kept.digest, applied: `sha256:${sha256(JSON.stringify(applied))}` },
    })
  }
  const result = resultOf(outcomes)
  const { applied, already } = result.counts
  if (applied + already === planned.length) markApplied(kept)
  return { ...result, receiptId: open.id }
}

function unwritten({ change, verdict }: Planned): Applied {
  return { change, ...verdict }
}

function resultOf(outcomes: readonly Applied[]): ApplyResult {
  const counts = { applied: 0, ready: 0, already: 0, conflict: 0, left: 0, failed: 0 }
  for (const { status } of outcomes) counts[status]++
  return { outcomes, counts }
}
