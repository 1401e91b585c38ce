/** Shows a run while it executes and after it has ended. */
import { ERRORS } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import { formatUsd } from '../../providers/ledger/money.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { ExecutedRun } from '../../run/agents/execute.ts'
import type { Handoff } from '../../run/agents/handoff.ts'
import type { RunProgress } from '../../run/agents/loop.ts'
import type { Run } from '../../run/agents/run-record.ts'
import type { CliContext } from '../context.ts'
import { printable, resolveFormat } from '../output.ts'
import { listFallbacks } from './fallbacks.ts'

/** A shorter wait gets no line. */
const PATIENCE_MS = 1_000
const REDRAW_MS = 250

/**
 * On a terminal, prints each step as it happens, and a line with the waiting time between steps. In a pipe it prints
 * nothing before the end.
 */
export class RunProgressView implements Disposable {
  readonly #context: CliContext
  readonly #shows: boolean
  readonly #timer: NodeJS.Timeout | undefined
  #sinceMs = performance.now()
  #drawn = false

  constructor(context: CliContext, flags: { readonly format?: string }) {
    this.#context = context
    this.#shows = resolveFormat(context, flags) === 'table'
    if (this.#shows && context.stderr.isTTY) this.#timer = setInterval(() => this.#wait(), REDRAW_MS)
    this.#timer?.unref()
  }

  readonly onProgress = (progress: RunProgress): void => {
    this.#clear()
    this.#sinceMs = performance.now()
    if (this.#shows) this.#context.stdout.write(stepLine(progress))
  };

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#clear()
  }

  #wait(): void {
    const waitedMs = performance.now() - this.#sinceMs
    if (waitedMs < PATIENCE_MS) return
    this.#drawn = true
    this.#context.stderr.write(`\r\u001b[K  … ${Math.floor(waitedMs / 1000)} s`)
  }

  #clear(): void {
    if (this.#drawn) this.#context.stderr.write('\r\u001b[K')
    this.#drawn = false
  }
}

function stepLine(progress: RunProgress): string {
  if (progress.type === 'answer') return lines(progress.text, '  ● ')
  const { command, durationMs } = progress
  const name = `$ ${command.command_ref}`.padEnd(46)
  const isDenied = command.status === 'denied'
  return `  ${isDenied ? '✗' : '●'} ${name} ${formatEnding(command)}${isDenied ? '' : `   ${formatDuration(durationMs)}`}\n`
}

function formatEnding({ status, exit_code }: Run['commands'][number]): string {
  if (status === 'denied') return 'denied'
  return exit_code === null ? status : `exit ${exit_code}`
}

/** Formats the text of a model as lines that a terminal can show safely. */
function lines(text: string, first: string): string {
  const shown = redactText(text).text.trim()
  if (shown === '') return ''
  return shown
    .split('\n')
    .map((line, i) => `${i === 0 ? first : '    '}${printable(line)}\n`)
    .join('')
}

/** Formats the lines below the steps: how the run ended, which records exist, and what to type next. */
export function formatSummary({ run, handoff, stopped, providerResults }: ExecutedRun): string {
  const tokens =
    run.tokens_used === null ? 'tokens unknown' : `${run.tokens_used.toLocaleString('en')} tokens`
  const turns = `${run.iteration} turn${run.iteration === 1 ? '' : 's'}`
  const rows: [string, string][] = [
    [run.status, [run.stop_reason, turns, tokens, ...costOf(providerResults)].filter(Boolean).join(' · ')],
    ...(stopped
      ? ([
          ['why', stopped.reason],
          ['next', stopped.hint],
        ] as [string, string][])
      : []),
    ['mode', `${run.runner_mode} · ${run.provider_id} · isolation ${run.isolation}`],
    ...listFallbacks(run.provider_id, handoff.answered_by),
    ['handoff', `${handoff.status}   craik handoff show ${handoff.id}`],
    ['receipts', `${run.receipt_ids.length}   craik receipts list --run ${run.id}`],
  ]
  return `\n${rows.map(([label, value]) => `  ${label.padEnd(11)} ${printable(value)}\n`).join('')}`
}

function costOf(results: ExecutedRun['providerResults']): string[] {
  const costs = results.map(({ cost_nano_usd }) => cost_nano_usd)
  if (costs.length === 0 || costs.includes(null)) return []
  return [formatUsd(costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0))]
}

/**
 * Returns the facts of a run as JSON. The commands for prompting and executing share them, and each adds its schema.
 */
export function executionRecord(executed: ExecutedRun): { readonly [key: string]: Json } {
  const { run, handoff, providerResults, text, stopped } = executed
  return {
    version: '0.1.0',
    status: run.status,
    run: formatRun(run),
    handoff: handoff as unknown as Json,
    task_id: run.task_id,
    provider_result_count: providerResults.length,
    provider_results: providerResults as unknown as Json,
    provider_ids: [...new Set(providerResults.map(({ provider_id }) => provider_id))],
    receipt_ids: run.receipt_ids,
    answer: redactText(text).text,
    stopped:
      stopped === undefined
        ? null
        : { reason: stopped.reason, hint: stopped.hint, receipt_id: stopped.receiptId ?? null },
    next_commands: nextCommands(run, handoff),
  }
}

function nextCommands(run: Run, handoff: Pick<Handoff, 'id'>): string[] {
  return [
    `craik run show ${run.id}`,
    `craik handoff show ${handoff.id}`,
    `craik receipts list --run ${run.id}`,
    ...(run.session_id === null ? [] : [`craik agent audit ${run.session_id}`]),
    ...(run.status === 'interrupted' ? [`craik run resume ${run.id} "<the same task>"`] : []),
  ]
}

/** Omits the fields that only Craik's own processes need. */
export function formatRun({ owner: { pid }, ...run }: Run): Json {
  return { ...run, pid } as unknown as Json
}

/** Returns 0 only if the model ended the run by itself. */
export function runExitCode({ status, stop_reason }: Run): number {
  if (status === 'completed') return 0
  if (status === 'blocked') {
    if (stop_reason?.startsWith('budget.')) return ERRORS.budget_exceeded.exit
    return stop_reason?.startsWith('quota.') ? ERRORS.quota_exceeded.exit : ERRORS.denied.exit
  }
  if (stop_reason === 'cancelled') return ERRORS.interrupted.exit
  if (stop_reason === 'wall_budget') return ERRORS.timeout.exit
  return stop_reason?.startsWith('provider.') ? ERRORS.provider_failed.exit : 1
}
