/**
 * The only way to run a sandboxed command: decides about a command reference, runs it in its sandbox, and records it.
 */
import { CraikError } from '../errors.ts'
import { cleanEnvironment, type RunResult } from '../lib/child.ts'
import type { OpenReceipt, Outcome, ReceiptLog } from '../receipts/receipt-log.ts'
import { redactText } from '../receipts/redaction/redact.ts'
import type { Measure, ReceiptDraft } from '../receipts/schema.ts'
import type { Store } from '../store/store.ts'
import type { Isolation } from './backend.ts'
import { CapturedOutput, type CapturedText } from './captured-output.ts'
import type { CommandBackend, CommandSandbox } from './command-backend.ts'
import { decideSandboxAction, type SandboxDecision } from './decision.ts'
import type { LocalProcessRequest } from './sandbox-request.ts'

export interface CommandContext {
  readonly store: Store
  readonly log: ReceiptLog
  readonly backend: CommandBackend
  /** Commands with isolation `none` get a few of its variables. Other commands get none. */
  readonly environment: NodeJS.ProcessEnv
  /** Requests the command to stop. */
  readonly signal?: AbortSignal
  /** Kills the command at once. Its receipt is written all the same. */
  readonly killSignal?: AbortSignal
}

interface CommandOptions {
  /**
   * The folder in which the command starts, without links in its path. It is mounted read-only at `/workspace`, unless
   * the isolation is `none`.
   */
  readonly workspace: string
  /** The default is 30 s. */
  readonly timeoutMs?: number
  /** The limit for both streams together. The default is 8 MiB. */
  readonly maxOutputBytes?: number
  /** Added to the receipts: other records that they belong to. */
  readonly links?: ReceiptDraft['links']
}

export type CommandRequest = LocalProcessRequest & CommandOptions

interface CommandDenied {
  readonly outcome: 'denied'
  readonly decision: SandboxDecision
  readonly receiptId: string
}

interface CommandRan {
  readonly outcome: 'ran'
  readonly decision: SandboxDecision
  readonly run: RunResult
  /** `passed` means that the command exited with code 0. */
  readonly status: 'passed' | 'failed'
  /** The isolation of the sandbox. Null when no sandbox could be created, so that nothing ran. */
  readonly isolation: Isolation | null
  readonly stdout: CapturedText
  readonly stderr: CapturedText
  /** The ids of the begin and end receipts. */
  readonly receiptIds: readonly [string, string]
  readonly receiptId: string
}

export type CommandOutcome = CommandDenied | CommandRan

const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_OUTPUT_BYTES = 8 * 1024 * 1024
const GRACE_MS = 1000

/**
 * Runs a command reference. `onOutput` gets redacted text as it arrives. A denial is returned as an outcome. Only
 * unexpected errors are thrown.
 */
export async function runCommandReference(
  context: CommandContext,
  request: CommandRequest,
  onOutput: (stream: 'stdout' | 'stderr', text: string) => void = () => {},
): Promise<CommandOutcome> {
  const { workspace, timeoutMs, maxOutputBytes, links, ...requested } = request
  if (context.backend.kind !== 'local_process') {
    throw new CraikError(
      'internal',
      `a command reference runs in a local process, not in ${context.backend.kind}`,
    )
  }
  const availability = await context.backend.probe()
  const answer = await decideSandboxAction(context.store, context.log, requested, {
    availability,
    ...(links && { links }),
  })
  const { decision } = answer
  if (!answer.allowed) return { outcome: 'denied', decision, receiptId: answer.receipt.id }
  if (answer.argv === undefined) throw new CraikError('internal', 'an allowed command has no argv')

  const stdout = new CapturedOutput((text) => onOutput('stdout', text))
  const stderr = new CapturedOutput((text) => onOutput('stderr', text))
  const isolation = requested.isolation ?? 'process'
  const { run, sandbox } = await runIn(
    context,
    { isolation, workspace },
    (sandbox) =>
      sandbox.boundary.exec({
        argv: answer.argv!,
        env: sandbox.isolation === 'none' ? cleanEnvironment(context.environment) : {},
        timeoutMs: timeoutMs ?? DEFAULT_TIMEOUT_MS,
        maxOutputBytes: maxOutputBytes ?? DEFAULT_OUTPUT_BYTES,
        graceMs: GRACE_MS,
        ...(context.signal && { signal: context.signal }),
        ...(context.killSignal && { killSignal: context.killSignal }),
        onStdout: (chunk) => stdout.write(chunk),
        onStderr: (chunk) => stderr.write(chunk),
      }),
    answer.open,
  )
  const [out, err] = [stdout.finish(), stderr.finish()]
  const status = run.end === 'exited' && run.exitCode === 0 ? 'passed' : 'failed'
  const end = await answer.open.end(outcomeOf(status, run, sandbox, out, err))
  return {
    outcome: 'ran',
    decision,
    run,
    status,
    isolation: sandbox?.isolation ?? null,
    stdout: out,
    stderr: err,
    receiptIds: [answer.open.id, end.id],
    receiptId: end.id,
  }
}

/**
 * Runs the command in a new sandbox. If the sandbox cannot be created, the command counts as not started. If an error
 * is thrown while it runs, the receipt ends as failed.
 */
async function runIn(
  context: CommandContext,
  spec: { readonly isolation: Isolation; readonly workspace: string },
  exec: (sandbox: CommandSandbox) => Promise<RunResult>,
  open: OpenReceipt,
): Promise<{ readonly run: RunResult; readonly sandbox?: CommandSandbox }> {
  let made: CommandSandbox
  try {
    made = await context.backend.create(spec)
  } catch (error) {
    if (!(error instanceof CraikError)) {
      await open.end({ status: 'failed' })
      throw error
    }
    const message = redactText(error.hint ? `${error.message}; ${error.hint}` : error.message).text
    return { run: { end: 'not_started', reason: 'other', message, durationMs: 0 } }
  }
  await using sandbox = made
  try {
    return { run: await exec(sandbox), sandbox }
  } catch (error) {
    await open.end({ status: 'failed', isolation: sandbox.isolation })
    throw error
  }
}

/** Returns sizes, hashes and how the command ended. Never contains its output. */
function outcomeOf(
  status: 'passed' | 'failed',
  run: RunResult,
  sandbox: CommandSandbox | undefined,
  stdout: CapturedText,
  stderr: CapturedText,
): Outcome {
  const observedMeasure = (name: string, value: number): Measure => ({ name, value, source: 'observed' })
  return {
    status,
    ...(sandbox && { isolation: sandbox.isolation }),
    measures: [
      observedMeasure('duration_ms', run.durationMs),
      ...(run.end === 'exited' ? [observedMeasure('exit_code', run.exitCode)] : []),
      observedMeasure('stdout_bytes', stdout.bytes),
      observedMeasure('stderr_bytes', stderr.bytes),
      ...(sandbox?.hostUid === undefined ? [] : [observedMeasure('host_uid', sandbox.hostUid)]),
    ],
    digests: { stdout: `sha256:${stdout.sha256}`, stderr: `sha256:${stderr.sha256}` },
    metadata: {
      end: run.end,
      ...(run.end === 'signalled' && { signal: run.signal }),
      ...(run.end === 'not_started' && { not_started: run.reason }),
    },
  }
}
