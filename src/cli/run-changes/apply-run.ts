/** Applies the changes of a run when the user asks for it, and prints the result of each change. */
import { ERRORS } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import type { ApplyResult } from '../../run/changes/apply-changes.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import { findHeldBack } from '../../sandboxes/unsafe-paths.ts'
import { withCommandGrant } from '../command-grant.ts'
import type { CliContext } from '../context.ts'
import { wrapWords } from '../fit-lines.ts'
import { type Column, printable, printNote, printRecord, resolveFormat, table } from '../output.ts'
import { countCells } from '../terminal-rows.ts'
import { describeRemaining, ownChanges } from './find-changes.ts'

export interface ApplyFlags {
  readonly dryRun?: boolean
  readonly skipConflicts?: boolean
  readonly includeUnsafe?: boolean
  /** The earlier name of `includeUnsafe`. */
  readonly withSettings?: boolean
  readonly profile?: 'strict' | 'automation' | 'custom'
  readonly format?: string
}

interface AppliedRun {
  readonly kept: StoredChangeSet
  readonly result: ApplyResult
}

/** Applies the changes with one grant for this run, because the user typed the command. */
export async function applyRun(
  context: CliContext,
  runId: string,
  flags: ApplyFlags,
  command = 'craik run apply',
): Promise<AppliedRun> {
  const changeSet = await ownChanges(context, runId, 'apply')
  const { APPLY, applyChanges, applyTarget } = await import('../../run/changes/apply-changes.ts')
  const grant = { ...APPLY, target: applyTarget(runId), path: changeSet.record.workspace, command }
  const deps = {
    store: await context.store(),
    log: await context.log(),
    home: context.home,
    clock: context.clock,
    operator: await context.operator(),
  }
  const result = await applyChanges(deps, changeSet, {
    ...flags,
    withSettings: isUnsafeIncluded(flags),
    withGrant: (use) => withCommandGrant(context, grant, use),
    until: context.signal,
  })
  return { kept: changeSet, result }
}

/** Also sets the exit code, because a conflict is not a success. */
export async function printApplied(
  context: CliContext,
  flags: ApplyFlags,
  { kept: changeSet, result }: AppliedRun,
): Promise<void> {
  const { changeKind } = await import('../../run/changes/change-set.ts')
  const { counts, outcomes, receiptId } = result
  const { run_id, workspace, left, left_count } = changeSet.record
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
  printRecord(context, flags, record, (columns) =>
    describe(changeSet, result, facts, { columns, isUnsafeIncluded: isUnsafeIncluded(flags) }),
  )
  if (resolveFormat(context, flags) === 'table') printNote(context, describeRemaining(changeSet))
  if (counts.conflict > 0) context.setExitCode(ERRORS.conflict.exit)
  else if (counts.failed > 0) context.setExitCode(1)
}

interface Fact {
  readonly path: string
  readonly change: string
  readonly status: string
  readonly reason: string | null
}

/** Changes that went well are only counted beyond this number. All others are listed. */
const LISTED = 50

function describe(
  { record }: StoredChangeSet,
  result: ApplyResult,
  facts: readonly Fact[],
  options: { readonly columns: number; readonly isUnsafeIncluded: boolean },
): string {
  const { counts, receiptId } = result
  const isFine = ({ status }: Fact) => status === 'applied' || status === 'already' || status === 'ready'
  const shown = [...facts.filter((fact) => !isFine(fact)), ...facts.filter(isFine).slice(0, LISTED)]
  const summary = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${count.toLocaleString('en')} ${statusName(status)}`)
    .join(' · ')
  const refused = counts.conflict > 0 && counts.ready > 0
  return [
    facts.length === 0 ? '  nothing was changed\n' : describeFacts(shown, options.columns),
    facts.length > shown.length ? `  … and ${(facts.length - shown.length).toLocaleString('en')} more\n` : '',
    summary === '' ? '' : `  ${summary}${receiptId === undefined ? '' : ` · receipt ${receiptId}`}\n`,
    refused
      ? `  nothing was written; apply the rest:  craik run apply ${record.run_id} --skip-conflicts\n`
      : '',
    !options.isUnsafeIncluded && facts.some(canInclude)
      ? `  review what is held back; apply it too:  craik run apply ${record.run_id} --include-unsafe\n`
      : '',
  ].join('')
}

/** Prints the reason beside the change, or below it if the line would be too wide. */
function describeFacts(facts: readonly Fact[], columns: number): string {
  const path: Column<Fact> = { title: 'path', value: (fact) => fact.path, canShorten: true }
  const others: readonly Column<Fact>[] = [
    { title: 'change', value: ({ change }) => change },
    { title: 'result', value: ({ status }) => statusName(status) },
  ]
  const why: Column<Fact> = { title: 'why', value: ({ reason }) => reason ?? '' }
  const hasReasons = facts.some(({ reason }) => reason !== null)
  const whole = table([path, ...others, ...(hasReasons ? [why] : [])], facts)
  if (whole.split('\n').every((line) => countCells(line) <= columns)) return whole
  const [head, ...lines] = table([path, ...others], facts, columns).split('\n')
  return [
    head,
    ...facts.flatMap(({ reason }, at) => [
      lines[at]!,
      ...(reason === null ? [] : wrapWords(printable(reason), columns - 6).map((line) => `      ${line}`)),
    ]),
    '',
  ].join('\n')
}

function statusName(status: string): string {
  return { left: 'held back', already: 'already applied' }[status] ?? status
}

/** Returns whether `--include-unsafe` would apply the change. Some held back changes are never applied. */
function canInclude({ path, status }: Fact): boolean {
  return status === 'left' && findHeldBack(path)?.kind === 'settings'
}

function isUnsafeIncluded({ includeUnsafe, withSettings }: ApplyFlags): boolean {
  return includeUnsafe === true || withSettings === true
}
