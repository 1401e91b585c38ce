/** Brings the changes of a run over on the word of whoever typed it, and tells what became of each. */
import { ERRORS } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import type { ApplyResult } from '../../run/changes/apply.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import type { CliContext } from '../context.ts'
import { printRecord, resolveFormat, table } from '../output.ts'
import { withTypedGrant } from '../typed-grant.ts'
import { leftLines, ownChanges } from './own-changes.ts'

export interface ApplyFlags {
  readonly dryRun?: boolean
  readonly skipConflicts?: boolean
  readonly withSettings?: boolean
  readonly profile?: 'strict' | 'automation' | 'custom'
  readonly format?: string
}

interface AppliedRun {
  readonly kept: StoredChangeSet
  readonly result: ApplyResult
}

/** The typed command is the leave for it, once, for this run. */
export async function applyRun(
  context: CliContext,
  runId: string,
  flags: ApplyFlags,
  command = 'craik run apply',
): Promise<AppliedRun> {
  const kept = await ownChanges(context, runId, 'apply')
  const { APPLY, applyChanges, applyTarget } = await import('../../run/changes/apply.ts')
  const leave = { ...APPLY, target: applyTarget(runId), path: kept.record.workspace, command }
  const place = {
    store: await context.store(),
    log: await context.log(),
    home: context.home,
    clock: context.clock,
    operator: await context.operator(),
  }
  const result = await applyChanges(place, kept, {
    ...flags,
    withGrant: (use) => withTypedGrant(context, leave, use),
    until: context.signal,
  })
  return { kept, result }
}

/** Sets the exit code too: a conflict is no success. */
export async function printApplied(
  context: CliContext,
  flags: ApplyFlags,
  { kept, result }: AppliedRun,
): Promise<void> {
  const { changeKind } = await import('../../run/changes/change-set.ts')
  const { counts, outcomes, receiptId } = result
  const { run_id, workspace, left, left_count } = kept.record
  const facts = outcomes.map(({ change, status, reason }) => ({
    path: change.path,
    change: changeKind(change),
    status,
    reason: reason ?? null,
  }))
  const record: Json = {
    run_id,
    workspace,
    dry_run: flags.dryRun === true,
    counts,
    left,
    left_count,
    files: facts,
    receipt_id: receiptId ?? null,
  }
  printRecord(context, flags, record, () => describe(context, kept, result, facts))
  if (resolveFormat(context, flags) === 'table') context.stderr.write(leftLines(kept))
  if (counts.conflict > 0) context.setExitCode(ERRORS.conflict.exit)
  else if (counts.failed > 0) context.setExitCode(1)
}

interface Fact {
  readonly path: string
  readonly change: string
  readonly status: string
  readonly reason: string | null
}

/** What went well is a number when there is much of it; what did not is always named. */
const LISTED = 50

function describe(
  context: CliContext,
  { record }: StoredChangeSet,
  result: ApplyResult,
  facts: readonly Fact[],
): string {
  const { counts, receiptId } = result
  const isFine = ({ status }: Fact) => status === 'applied' || status === 'already' || status === 'ready'
  const shown = [...facts.filter((fact) => !isFine(fact)), ...facts.filter(isFine).slice(0, LISTED)]
  const rows = table(
    [
      { title: 'path', value: ({ path }: Fact) => path },
      { title: 'change', value: ({ change }) => change },
      { title: 'result', value: ({ status }) => status },
      { title: 'why', value: ({ reason }) => reason ?? '' },
    ],
    shown,
    context.stdout.columns,
  )
  const summary = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${count.toLocaleString('en')} ${status}`)
    .join(' · ')
  const refused = counts.conflict > 0 && counts.ready > 0
  return [
    facts.length === 0 ? '  nothing was changed\n' : rows,
    facts.length > shown.length ? `  … and ${(facts.length - shown.length).toLocaleString('en')} more\n` : '',
    summary === '' ? '' : `  ${summary}${receiptId === undefined ? '' : ` · receipt ${receiptId}`}\n`,
    refused
      ? `  nothing was written; apply the rest:  craik run apply ${record.run_id} --skip-conflicts\n`
      : '',
  ].join('')
}
