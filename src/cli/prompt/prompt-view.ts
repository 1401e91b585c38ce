/** Shows a prompt: as lines for the user, or with each event as a line of JSON for programs. */
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { formatUsd } from '../../providers/ledger/money.ts'
import { changeKind, type StoredChangeSet } from '../../run/changes/change-set.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import type { PromptUsage } from '../../run/prompts/prompt-usage.ts'
import type { CliContext } from '../context.ts'
import { fitLines } from '../fit-lines.ts'
import { formatName, printable } from '../output.ts'
import { redraw } from '../progress.ts'
import { formatFileCount } from '../sandbox/amounts.ts'
import { describeIsolation } from '../sandbox/describe-sandbox.ts'
import { countCells, truncateRow } from '../terminal-rows.ts'
import type { PromptEvent } from './run-prompt.ts'
import { TerminalView } from './terminal-view.ts'

export interface PromptView {
  printBegin(run: PromptRun, sandbox: SandboxBody, copied: number | undefined): void
  readonly event: (event: PromptEvent) => void
  printEnd(
    run: PromptRun,
    usage: PromptUsage,
    sandbox: SandboxBody,
    changeSet: StoredChangeSet | undefined,
    isApplied: boolean,
  ): Promise<void>
}

export function viewFor(context: CliContext, isForPerson: boolean): PromptView {
  return isForPerson ? personView(context) : programView(context)
}

function programView({ stdout }: CliContext): PromptView {
  const line = (value: object) => stdout.write(`${JSON.stringify(value)}\n`)
  return {
    printBegin: ({ id, harness, workspace, workspace_mode, resumed_from }, sandbox) =>
      line({
        type: 'started',
        run_id: id,
        harness,
        sandbox_id: sandbox.id,
        backend: sandbox.backend,
        isolation: sandbox.isolation,
        workspace,
        workspace_mode,
        resumed_from,
      }),
    event: (event) => line(eventJson(event)),
    async printEnd({ id, status, stop_reason }, usage, _, changeSet) {
      const changed =
        changeSet?.record.changes.map((change) => ({ path: change.path, change: changeKind(change) })) ?? null
      line({ type: 'ended', run_id: id, status, stop_reason, changed, usage: usageFacts(usage) })
    },
  }
}

function eventJson(event: PromptEvent): object {
  if (event.type === 'tool') return { type: 'tool', ...toolFacts(event.tool) }
  if (event.type === 'permission') {
    const { allowed, rule, receiptId } = event.decision
    const { requestText: _, ...tool } = event.tool
    return { type: 'permission', ...toolFacts(tool), allowed, rule, receipt_id: receiptId }
  }
  return event
}

function toolFacts({ exitCode, ...tool }: Extract<PromptEvent, { type: 'tool' }>['tool']): object {
  return { ...tool, exit_code: exitCode }
}

function usageFacts(usage: PromptUsage): object {
  return {
    calls: usage.calls,
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cost_nano_usd: usage.costNanoUsd,
    providers: usage.providers,
    estimated: usage.isEstimated,
    receipts: usage.receipts,
    denied: usage.denied,
  }
}

function personView(context: CliContext): PromptView {
  const { stdout, stderr } = context
  const isTerminal = stderr.isTTY === true
  let isDrawn = false
  const clear = () => {
    if (isDrawn) stderr.write('\r\u001b[K')
    isDrawn = false
  }
  const view = new TerminalView({
    write(text) {
      clear()
      stdout.write(text)
    },
    draw(line) {
      if (!isTerminal) return
      redraw(stderr, line)
      isDrawn = true
    },
    nowMs: () => performance.now(),
    columns: () => columnsOf(stdout),
    dim: (text) => (stdout.isTTY && !context.environment.NO_COLOR ? `\u001b[2m${text}\u001b[22m` : text),
  })
  const stopping = () => {
    if (isTerminal) stderr.write('\r\u001b[K  stopping …  (Ctrl-C again to kill it)\n')
  }
  return {
    printBegin({ harness, workspace_mode, resumed_from }, sandbox, copied) {
      context.signal.addEventListener('abort', stopping, { once: true })
      const facts = [
        `${harness} in ${printable(sandbox.name)}`,
        describeIsolation(sandbox),
        ...(workspace_mode === 'in-place' ? ['workspace in place'] : []),
        ...(copied === undefined ? [] : [`workspace copied (${formatFileCount(copied)})`]),
        ...(resumed_from === null ? [] : [`resumes ${resumed_from}`]),
      ]
      view.line(fitLines(`  ${facts.join(' · ')}`, columnsOf(stdout)))
    },
    event(event) {
      if (event.type === 'waiting')
        view.waits(`${event.why}: tried ${event.tries === 1 ? 'once' : `${event.tries} times`}`)
      else if (event.type !== 'permission') view.show(event)
      else if (!event.decision.allowed) {
        const { rule, receiptId, why } = event.decision
        const reason = why === undefined ? '' : `: ${why}`
        view.line(`  ✗ ${event.tool.kind} denied by ${rule}${reason}\n    receipt ${receiptId}`)
      }
    },
    async printEnd(run, usage, { name }, changeSet, isApplied) {
      context.signal.removeEventListener('abort', stopping)
      view.end()
      clear()
      const changed =
        changeSet === undefined
          ? describeUnknownChanges(run, name)
          : await describeChanges(run, changeSet, isApplied, columnsOf(stdout), AbortSignal.timeout(PATCH_MS))
      stdout.write(`\n${summaryOf(run, usage, name, changed, columnsOf(stdout)).join('\n')}\n`)
    },
  }
}

function summaryOf(
  run: PromptRun,
  usage: PromptUsage,
  sandboxName: string,
  changed: readonly string[],
  columns: number,
): string[] {
  const number = (value: number) => value.toLocaleString('en')
  const denials = usage.denied === 0 ? 'none denied' : `${number(usage.denied)} denied`
  return [
    ...(run.status === 'completed' && run.stop_reason === 'end_turn'
      ? []
      : [`  ended     ${[...new Set([run.status, printable(run.stop_reason ?? 'unknown')])].join(': ')}`]),
    ...changed,
    ...(usage.calls === 0
      ? []
      : fitLines(
          `  model     ${usage.providers.join(', ')} · ${number(usage.inputTokens)} in · ${number(usage.outputTokens)} out · ${costOf(usage)}`,
          columns,
        ).split('\n')),
    ...withCommand(
      `  receipts  ${number(usage.receipts)}, ${denials}`,
      `show:   craik receipts list --run ${run.id}`,
      columns,
    ),
    ...withCommand(
      `  sandbox   ${printable(sandboxName)}`,
      `next:   craik prompt "…" --resume ${run.id}`,
      columns,
    ),
  ]
}

/** Puts the command beside the fact, or below it if both do not fit on one line. */
function withCommand(fact: string, command: string, columns: number): string[] {
  const line = `${fact.padEnd(FACT_COLUMNS)}${command}`
  if (command === '') return [fact]
  return countCells(line) <= columns ? [line] : [fact, `${' '.repeat(LABEL_COLUMNS)}${command}`]
}

function describeUnknownChanges({ workspace_mode, workspace }: PromptRun, sandboxName: string): string[] {
  if (workspace_mode === 'in-place')
    return ['  changed   the folder itself; review it there, for example with git']
  return workspace === null
    ? [
        '  changed   unknown: Craik does not know which folder the sandbox copied',
        `            copy it out:    craik sandbox cp ${printable(sandboxName)}:. ./${printable(sandboxName)}`,
        '            next time:      craik prompt "…" --workspace FOLDER   (without --sandbox)',
      ]
    : []
}

const PATCH_MS = 30_000
/** The summary names this many files. */
const NAMED = 8
const LABEL_COLUMNS = 12
const FACT_COLUMNS = 42

async function describeChanges(
  { id }: PromptRun,
  changeSet: StoredChangeSet,
  isApplied: boolean,
  columns: number,
  until: AbortSignal,
): Promise<string[]> {
  const { changes, left_count } = changeSet.record
  if (changes.length === 0) return [`  changed   nothing${left_count > 0 ? ' that can be applied' : ''}`]
  const { patchOf } = await import('../../run/changes/patch.ts')
  const files: string[] = []
  for await (const { path, addedLines: added, removedLines: removed } of patchOf(changeSet, until)) {
    if (files.length === NAMED) break
    const lines = added === null ? '' : ` (+${added} −${removed})`
    files.push(`${truncateRow(formatName(path), columns - LABEL_COLUMNS - lines.length)}${lines}`)
  }
  const more = changes.length - files.length
  const next = isApplied ? '' : `apply:  craik run apply ${id}`
  const [first, below] = withCommand(`  changed   ${files[0]}`, next, columns)
  return [
    first!,
    ...files.slice(1).map((file) => `${' '.repeat(LABEL_COLUMNS)}${file}`),
    ...(more > 0 ? [`            and ${more.toLocaleString('en')} more`] : []),
    ...(below === undefined ? [] : [below]),
  ]
}

function columnsOf({ isTTY, columns }: CliContext['stdout']): number {
  return isTTY ? columns : Number.POSITIVE_INFINITY
}

function costOf({ costNanoUsd, isEstimated }: PromptUsage): string {
  if (costNanoUsd === null) return 'no price (a subscription, or unknown)'
  return `${formatUsd(costNanoUsd)} (${isEstimated ? 'estimated' : 'measured'})`
}
