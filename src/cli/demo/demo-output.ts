/** Formats the steps of the demo as they happen, and its result. */
import { formatDuration } from '../../lib/duration.ts'
import type { RunProgress } from '../../run/agents/loop.ts'
import type { DemoResult, DemoStep, Execution } from '../../run/demo/persistent-agent.ts'
import { printable } from '../output.ts'

export const VERIFY = 'craik receipts verify --replay'

/** The artifacts of a demo belong to its own operator, and no other operator can see them. */
export const ACT_AS_DEMO = 'craik login --as persistent-agent-demo'

export function printReceipts({ sessionId }: Pick<Execution, 'sessionId'>): string {
  return `craik receipts list --session ${sessionId}`
}

export function describeStep(step: DemoStep): string {
  switch (step.type) {
    case 'begun':
      return lines([
        `persistent agents on ${step.repository.name} · the answers are canned: no model, no network`,
        ...describeSandbox(step.availability),
        '',
      ])
    case 'launched':
      return lines([`${step.providerId}   session ${step.sessionId}`])
    case 'progress':
      return lines([`  ${describeProgress(step.progress)}`])
    case 'ended':
      return lines([...describeEnd(step.execution).map((line) => `  ${line}`), ''])
    case 'cleaned':
      return step.sessions === 0
        ? ''
        : lines([
            `removed   ${formatCount(step.sessions, 'session')} with runs, events and handoffs; receipts stay: the log is append-only`,
          ])
  }
}

function describeSandbox({ isolation, version, reason, fix }: DemoResult['availability']): readonly string[] {
  if (isolation !== 'none')
    return [
      `sandbox   ${isolation} (${version ?? 'this machine'}): own namespaces, no network, read-only workspace`,
    ]
  return [
    `sandbox   none: the command runs directly on the host, without isolation${reason === undefined ? '' : ` (${reason})`}`,
    ...(fix === undefined ? [] : [`          to get one:  ${fix}`]),
  ]
}

function describeProgress(progress: RunProgress): string {
  if (progress.type === 'answer') {
    const { tool_calls, receipt_id } = progress.result
    const answer = tool_calls === 0 ? 'is done' : `requests ${formatCount(tool_calls, 'command')}`
    return row('●', 'model.chat', answer, receipt_id)
  }
  const { command_ref, status, exit_code, isolation, receipt_id } = progress.command
  const ending = status === 'denied' ? 'denied' : exit_code === null ? 'did not finish' : `exit ${exit_code}`
  const where = isolation === null ? 'nothing ran' : `isolation ${isolation}`
  const glyph = status === 'passed' ? '●' : '✗'
  return row(
    glyph,
    `$ ${command_ref}`,
    `${ending} · ${where} · ${formatDuration(progress.durationMs)}`,
    receipt_id,
  )
}

function describeEnd({
  runStatus,
  handoffStatus,
  sessionStatus,
  stopped,
  ...one
}: Execution): readonly string[] {
  const glyph = runStatus === 'completed' ? '✓' : '✗'
  const states = `run ${runStatus} · handoff ${handoffStatus} · session ${sessionStatus}, seal ${one.sessionSeal}`
  return [
    `${glyph} ${states}`,
    ...(stopped === undefined ? [] : [`  ${stopped.reason}`, `  ${stopped.hint}`]),
  ]
}

export function describeResult({
  availability,
  executions,
  verification,
  artifactsCleaned,
  succeeded,
}: DemoResult): string {
  const sum = (count: (one: Execution) => number) => executions.reduce((total, one) => total + count(one), 0)
  const completed = executions.filter(({ runStatus }) => runStatus === 'completed').length
  const { receipts, decisions, recomputed, notReplayable, problems, holds } = verification
  const rest = notReplayable > 0 ? ` · ${notReplayable} cannot be recomputed` : ''
  return lines([
    `receipts  ${receipts} written · chain and HMAC ${holds ? '✓' : '✗'} · ${formatCount(decisions, 'decision')} recomputed: ${recomputed} agree${rest}`,
    ...problems.map((problem) => `          ✗ ${problem}`),
    '',
    `${succeeded ? '✓' : '✗'} ${completed} of ${formatCount(executions.length, 'run')} completed · ${formatCount(
      sum((one) => one.commandsPassed),
      'command',
    )} passed ${availability.isolation === 'none' ? 'without a sandbox' : 'in the sandbox'} · ${formatCount(
      sum((one) => one.providerResultCount),
      'canned answer',
    )}`,
    '',
    `list decisions      ${printReceipts(executions[0]!)}`,
    `verify the log      ${VERIFY}`,
    artifactsCleaned
      ? `start your own      craik login && craik agent launch --fixture${availability.isolation === 'none' ? ' --isolation none' : ''}`
      : `inspect the records ${ACT_AS_DEMO} && craik agent audit ${executions[0]!.sessionId}`,
  ])
}

function row(glyph: string, what: string, how: string, receiptId: string): string {
  return `${glyph} ${what.padEnd(16)} ${how.padEnd(34)} ${receiptId}`
}

function lines(all: readonly string[]): string {
  return all.map((line) => (line === '' ? '\n' : `  ${printable(line)}\n`)).join('')
}

function formatCount(n: number, noun: string): string {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`
}
