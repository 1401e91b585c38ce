/**
 * Runs one command that a model requested, on the one path to sandboxed commands, and formats the answer for the model.
 */
import { REFERENCE } from '../../lib/ids.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import { runCommandReference } from '../../sandboxes/local-process.ts'
import { DEFAULT_COMMAND_MS, type RunInput } from './execute.ts'
import type { RunDeps } from './run-deps.ts'
import { findGrantFor } from './run-grants.ts'
import type { CommandRun, Run } from './run-record.ts'

const MAX_OUTPUT_BYTES = 4 * 1024 * 1024
/** The limit per stream. A model pays for every character, and the beginning and end matter most. */
const MAX_TOLD_CHARACTERS = 16_000

type Ran = Extract<Awaited<ReturnType<typeof runCommandReference>>, { outcome: 'ran' }>

export interface Acted {
  readonly command: CommandRun
  /** Why no sandbox could be created, so that nothing ran. */
  readonly noSandbox?: string
  readonly durationMs: number
  readonly failed: boolean
  /** For the model: how the command ended, and its redacted output. */
  readonly text: string
  readonly denied?: {
    readonly rule: string
    readonly reason: string
    readonly hint: string
    readonly receiptId: string
  }
}

export interface Action {
  readonly commandRef: string
  /** The answer that requested the command. */
  readonly receiptId: string
  readonly signal: AbortSignal
}

export async function runToolCall(deps: RunDeps, run: Run, input: RunInput, action: Action): Promise<Acted> {
  const { operator, policyEnvelopeId, sessionId, taskId, runId, isolation, workspace } = input
  const scope = { ...(sessionId !== undefined && { session_id: sessionId }), task_id: taskId, run_id: runId }
  const capability = 'shell.execute'
  const grantId = await findGrantFor(
    deps.store,
    {
      operator,
      capability,
      operation: 'run',
      target: action.commandRef,
      scope,
      policy_envelope_id: policyEnvelopeId,
    },
    deps.clock.nowMs(),
  )
  const result = await runCommandReference(
    { ...deps, signal: action.signal },
    {
      kind: 'local_process',
      backend_id: run.backend_id,
      operator,
      scope,
      capability,
      operation: 'run',
      command_ref: action.commandRef,
      policy_envelope_id: policyEnvelopeId,
      ...(grantId !== undefined && { capability_grant_id: grantId }),
      receipt_id: action.receiptId,
      isolation,
      workspace,
      timeoutMs: input.commandMs ?? DEFAULT_COMMAND_MS,
      maxOutputBytes: MAX_OUTPUT_BYTES,
      links: { provider_id: run.provider_id, handoff_id: run.handoff_id },
    },
  )
  const named = { command_ref: displayReference(action.commandRef), capability }
  if (result.outcome === 'denied') {
    const { rule, reason } = result.decision
    const { receiptId } = result
    const hint =
      rule === 'sandbox.grant'
        ? await grantHint(deps, action.commandRef, sessionId)
        : (result.decision.hint ?? '')
    return {
      command: { ...named, status: 'denied', exit_code: null, isolation: null, receipt_id: receiptId },
      durationMs: 0,
      failed: true,
      text: '',
      denied: { rule, reason, hint, receiptId },
    }
  }
  const exitCode = result.run.end === 'exited' ? result.run.exitCode : null
  return {
    command: {
      ...named,
      status: result.status,
      exit_code: exitCode,
      isolation: result.isolation,
      receipt_id: result.receiptId,
    },
    ...(result.isolation === null && {
      noSandbox: 'message' in result.run ? result.run.message : result.run.end,
    }),
    durationMs: result.run.durationMs,
    failed: result.status !== 'passed',
    text: describeOutput(result),
  }
}

/**
 * Returns the command that lets the next prompt succeed, if a grant can. A task without a session ends with its run.
 */
async function grantHint({ store }: RunDeps, serialized: string, sessionId?: string): Promise<string> {
  const ref = displayReference(serialized)
  if (ref !== serialized) {
    return 'the model wrote a command instead of a reference, and no grant allows that; list the references:  craik command list'
  }
  if ((await store.read((tables) => tables.commands.get(ref))) === undefined) {
    return `no registered command has this name; register one:  craik command register ${ref} -- PROGRAM ARGUMENTS`
  }
  const scope = sessionId === undefined ? '--any-scope' : `--session-id ${sessionId}`
  return `grant it once:  craik grant create --capability shell.execute --operation run --target ${ref} ${scope}`
}

/** Text that is not a reference is not repeated in any record. */
function displayReference(serialized: string): string {
  return REFERENCE.test(serialized) && redactText(serialized).labels.length === 0
    ? serialized
    : 'not-a-reference'
}

function describeOutput({ run, stdout, stderr }: Ran): string {
  const ending =
    run.end === 'exited'
      ? `exit ${run.exitCode}`
      : run.end === 'not_started'
        ? `not started: ${run.message}`
        : `did not finish: ${run.end}`
  const parts = [
    ['stdout', stdout.text],
    ['stderr', stderr.text],
  ] as const
  return [
    ending,
    ...parts.flatMap(([name, text]) => (text === '' ? [] : [`${name}:\n${truncateText(text)}`])),
  ].join('\n')
}

function truncateText(text: string): string {
  if (text.length <= MAX_TOLD_CHARACTERS) return text
  const half = MAX_TOLD_CHARACTERS / 2
  const cut = text.length - MAX_TOLD_CHARACTERS
  return `${text.slice(0, half)}\n… ${cut} characters left out …\n${text.slice(-half)}`.toWellFormed()
}
