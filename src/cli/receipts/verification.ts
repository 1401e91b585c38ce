/** Formats the result of a verification: as an exit code, as JSON and as lines for the user. */
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { RowCheck } from '../../providers/ledger/recorded-rows.ts'
import type { VerifierReport } from '../../receipts/verifier/report.ts'
import type { LogReplay } from '../../run/replay-log.ts'
import type { SideLogCheck } from '../../run/side-log-check.ts'
import type { BoundaryCheck } from '../../sandboxes/lifecycle/reconcile.ts'
import { printable } from '../output.ts'
import { budgetJson, describeBudget, describeCalls } from './budgets.ts'
import type { SandboxRowCheck } from './verify-sandboxes.ts'

export interface Verification {
  readonly report: VerifierReport
  readonly sideLogs?: SideLogCheck
  /** The counts of the sandboxes' boundaries, compared with the receipts. */
  readonly boundaries?: BoundaryCheck
  /** Only for the live log: the rows of sandboxes and their jobs, compared with their seals. */
  readonly sandboxRows?: SandboxRowCheck
  readonly replay?: LogReplay
  /** Only for the live log: the rows of budgets, balances and holds, compared with the replay. */
  readonly rows?: RowCheck
  /** True for a proof about one receipt or two checkpoints, which has no chain. */
  readonly isProof?: boolean
  readonly elapsedMs: number
}

export function verificationExitCode(verification: Verification): 0 | 1 | 2 {
  const { report, sideLogs, boundaries, sandboxRows, replay, rows } = verification
  if (sandboxRows?.damaged.length) return 1
  if (report.outcome === 'tampered' || sideLogs?.tampered.length || boundaries?.differ.length) return 1
  if (replay?.differ.length || rows?.differ.length) return 1
  return report.outcome === 'incomplete' || sideLogs?.missing.length ? 2 : 0
}

export function verificationJson(verification: Verification): Json {
  const { report, sideLogs, boundaries, sandboxRows, replay, rows, elapsedMs } = verification
  const { receipts, checkpoints, intact, missing, origin, firstAt, lastAt, finding, lastCheckpoint } = report
  return {
    outcome: (['ok', 'tampered', 'incomplete'] as const)[verificationExitCode(verification)],
    receipts,
    checkpoints,
    intact,
    missing,
    origin,
    first_at: firstAt,
    last_at: lastAt,
    finding: finding && { ...finding },
    last_checkpoint: lastCheckpoint,
    elapsed_ms: elapsedMs,
    side_logs: sideLogs && { ...sideLogs },
    boundaries: hasFindings(boundaries) ? boundariesJson(boundaries) : undefined,
    sandbox_rows: sandboxRows?.checked
      ? { checked: sandboxRows.checked, damaged: sandboxRows.damaged.map((one) => ({ ...one })) }
      : undefined,
    replay: replay && {
      decisions: replay.decisions,
      agree: replay.agree,
      not_replayable: replay.notReplayable,
      not_replayable_kinds:
        replay.notReplayable === 0
          ? undefined
          : replay.notReplayableKinds.map((each) => ({
              kind: each.kind,
              count: each.count,
              receipt_ids: each.receiptIds,
            })),
      differ: replay.differ.map((difference) => ({ ...difference })),
      budgets: replay.ledger.budgets.length === 0 ? undefined : replay.ledger.budgets.map(budgetJson),
      calls: replay.ledger.calls.begun === 0 ? undefined : { ...replay.ledger.calls },
      not_rebuilt: replay.ledger.notRebuilt.length === 0 ? undefined : replay.ledger.notRebuilt,
      rows: rows && { compared: rows.compared, differ: rows.differ.map((difference) => ({ ...difference })) },
    },
  }
}

export function describeVerification(verification: Verification): string {
  const { report, sideLogs, boundaries, sandboxRows, replay, rows } = verification
  const lines = report.finding ? describeTampering(report) : describeIntact(verification)
  for (const what of report.finding ? [] : report.missing) lines.push(`  – incomplete: ${what}`)
  for (const digest of sideLogs?.tampered ?? [])
    lines.push(`  ✗ shell output ${digest.slice(0, 16)}… was edited: its hash does not match`)
  for (const digest of sideLogs?.missing ?? [])
    lines.push(`  – shell output ${digest.slice(0, 16)}… is missing`)
  if (hasFindings(boundaries) && !report.finding) lines.push(...describeBoundaries(boundaries))
  for (const { detail } of sandboxRows?.damaged ?? []) lines.push(`  ✗ ${detail}`)
  if (replay) {
    const rest = replay.notReplayable > 0 ? ` · ${formatNotReplayable(replay)}` : ''
    lines.push(
      `  ${formatCount(replay.decisions, 'decision')} recomputed: ${count(replay.agree)} agree${rest}`,
    )
    for (const { seq, id, detail } of replay.differ) lines.push(`  ✗ receipt ${seq} (${id}): ${detail}`)
    if (replay.ledger.calls.begun > 0) lines.push(`  ${describeCalls(replay.ledger.calls)}`)
    for (const budget of replay.ledger.budgets) lines.push(`  ${describeBudget(budget)}`)
    for (const what of replay.ledger.notRebuilt) lines.push(`  – not rebuilt: ${what}`)
  }
  for (const { id, detail } of rows?.differ ?? []) lines.push(`  ✗ ${id}: ${detail}`)
  if (rows && rows.compared > 0 && rows.differ.length === 0)
    lines.push(`  ${formatCount(rows.compared, 'row')} of budgets, balances and holds: same as in the log`)
  return `${lines.map(printable).join('\n')}\n`
}

function hasFindings(boundaries: BoundaryCheck | undefined): boundaries is BoundaryCheck {
  return boundaries !== undefined && boundaries.epochs + boundaries.open > 0
}

function boundariesJson({ epochs, open, operations, differ }: BoundaryCheck): Json {
  return {
    epochs,
    open,
    operations,
    differ: differ.map(({ sandboxId, epoch, detail }) => ({ sandbox_id: sandboxId, epoch, detail })),
  }
}

function describeBoundaries({ epochs, operations, differ }: BoundaryCheck): string[] {
  if (differ.length > 0 || epochs === 0) return differ.map(({ detail }) => `  ✗ ${detail}`)
  return [`  sandboxes ✓ ${formatCount(operations, 'operation')}, each with its receipt`]
}

/** Formats counts, such as `8 cannot be recomputed (6 shell_action, 2 denial)`. */
function formatNotReplayable({ notReplayable, notReplayableKinds: kinds }: LogReplay): string {
  const each = kinds.map((one) => `${count(one.count)} ${one.kind}`).join(', ')
  return `${count(notReplayable)} cannot be recomputed (${each})`
}

function describeTampering({ finding, intact }: VerifierReport): string[] {
  const lines = [`  ✗ ${finding!.detail}`]
  if (intact === 1) lines.push('    receipt 0 is intact; nothing after it can be trusted')
  if (intact > 1)
    lines.push(`    receipts 0–${count(intact - 1)} are intact; nothing after them can be trusted`)
  return lines
}

function describeIntact({ report, sideLogs, isProof, elapsedMs }: Verification): string[] {
  const { receipts, checkpoints, firstAt, lastAt } = report
  const [first, last] = [firstAt?.slice(0, 10), lastAt?.slice(0, 10)]
  const span = first === undefined ? '' : ` · ${first === last ? first : `${first} → ${last}`}`
  const { checked = 0, missing = [], tampered = [] } = sideLogs ?? {}
  const glyph = tampered.length > 0 ? '✗' : missing.length > 0 ? '–' : '✓'
  const hasLogs = checked + missing.length + tampered.length > 0
  const logs = hasLogs ? `  shell output ${glyph} ${formatCount(checked, 'file')}` : ''
  const passed = isProof ? 'signatures ✓  proof ✓' : 'chain ✓  signatures ✓  tree ✓'
  return [
    `  ${formatCount(receipts, 'receipt')}${span} · ${formatCount(checkpoints, 'checkpoint')}`,
    `  ${passed}${logs}     ${formatDuration(elapsedMs)}`,
  ]
}

const count = (n: number) => n.toLocaleString('en')
const formatCount = (n: number, noun: string) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`
