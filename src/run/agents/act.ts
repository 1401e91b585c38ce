/** One command that a model asked for, through the one path to a sandboxed command, and what the model is told of it. */
import { REFERENCE } from '../../lib/ids.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import { runCommandReference } from '../../sandboxes/local-process.ts'
import { DEFAULT_COMMAND_MS, type RunInput } from './execute.ts'
import { findGrantFor } from './grants.ts'
import type { RunDeps } from './run-deps.ts'
import type { CommandRun, Run } from './run-record.ts'

const MAX_OUTPUT_BYTES = 4 * 1024 * 1024
/** Of each stream; a model pays for every character, and the beginning and the end say most. */
const MAX_TOLD_CHARACTERS = 16_000

type Ran = Extract<Awaited<ReturnType<typeof runCommandReference>>, { outcome: 'ran' }>

export interface Acted {
  readonly command: CommandRun
  /** Why no place could be made for it, so that nothing ran. */
  readonly noPlace?: string
  readonly durationMs: number
  readonly failed: boolean
  /** For the model: how it ended, and its redacted output. */
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
  /** The answer that asked for it. */
  readonly receiptId: string
  readonly signal: AbortSignal
}

export async function act(place: RunDeps, run: Run, input: RunInput, action: Action): Promise<Acted> {
  const { operator, policyEnvelopeId, sessionId, taskId, runId, isolation, workspace } = input
  const scope = { ...(sessionId !== undefined && { session_id: sessionId }), task_id: taskId, run_id: runId }
  const capability = 'shell.execute'
  const grantId = await findGrantFor(
    place.store,
    {
      operator,
      capability,
      operation: 'run',
      target: action.commandRef,
      scope,
      policy_envelope_id: policyEnvelopeId,
    },
    place.clock.nowMs(),
  )
  const result = await runCommandReference(
    { ...place, signal: action.signal },
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
  const named = { command_ref: shownReference(action.commandRef), capability }
  if (result.outcome === 'denied') {
    const { rule, reason } = result.decision
    const { receiptId } = result
    const hint =
      rule === 'sandbox.grant'
        ? await grantHint(place, action.commandRef, sessionId)
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
      noPlace: 'message' in result.run ? result.run.message : result.run.end,
    }),
    durationMs: result.run.durationMs,
    failed: result.status !== 'passed',
    text: told(result),
  }
}

/** What the operator types to let the next prompt do it, where a grant can. A task of its own is over with its run. */
async function grantHint({ store }: RunDeps, spelled: string, sessionId?: string): Promise<string> {
  const ref = shownReference(spelled)
  if (ref !== spelled) {
    return 'the model wrote a command instead of a reference, and no grant allows that; list the references:  craik command list'
  }
  if ((await store.read((tables) => tables.commands.get(ref))) === undefined) {
    return `unknown command; register it:  craik command register ${ref} -- PROGRAM ARGUMENTS`
  }
  const scope = sessionId === undefined ? '--any-scope' : `--session-id ${sessionId}`
  return `grant it once:  craik grant create --capability shell.execute --operation run --target ${ref} ${scope}`
}

/** What is no reference is not repeated in any record. */
function shownReference(spelled: string): string {
  return REFERENCE.test(spelled) && redactText(spelled).labels.length === 0 ? spelled : 'not-a-reference'
}

function told({ run, stdout, stderr }: Ran): string {
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
    ...parts.flatMap(([name, text]) => (text === '' ? [] : [`${name}:\n${shortened(text)}`])),
  ].join('\n')
}

function shortened(text: string): string {
  if (text.length <= MAX_TOLD_CHARACTERS) return text
  const half = MAX_TOLD_CHARACTERS / 2
  const cut = text.length - MAX_TOLD_CHARACTERS
  return `${text.slice(0, half)}\n… ${cut} characters left out …\n${text.slice(-half)}`.toWellFormed()
}
