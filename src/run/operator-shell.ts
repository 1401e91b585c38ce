/**
 * The operator's own shell: runs a typed command without a shell, with a clean environment, and records it. It is for
 * the operator and gives models no permission.
 */
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { cleanEnvironment, type RunResult } from '../lib/child.ts'
import type { Clock } from '../lib/clock.ts'
import { REFERENCE } from '../lib/ids.ts'
import { ensurePrivateFolder } from '../lib/private-files.ts'
import { joinCommand, quoteArgument, splitCommand } from '../lib/shlex.ts'
import { decide, policyDeniedError } from '../policy/decide.ts'
import { operatorEnvelope } from '../policy/operator-envelope.ts'
import type { PolicyProfile } from '../policy/profiles.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import {
  isSecretKey,
  REDACTED_LABEL,
  type RedactedText,
  redactText,
  redactValue,
} from '../receipts/redaction/redact.ts'
import type { CommandBackend } from '../sandboxes/command-backend.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import { SideLog, type SideLogSummary, sweepUnfinished } from './side-log.ts'

export interface ShellDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly clock: Clock
  readonly environment: NodeJS.ProcessEnv
  readonly operator: string
  readonly backend: CommandBackend
  /** Requests the command to stop. */
  readonly signal: AbortSignal
  /** Kills the command immediately. Its receipt is still written. */
  readonly killSignal: AbortSignal
}

export interface ShellInput {
  readonly command: string
  readonly workingDirectory: string
  readonly timeoutMs: number
  readonly profile: PolicyProfile
  readonly grantId?: string | undefined
  /** Receives redacted text as it arrives. */
  readonly onOutput: (stream: 'stdout' | 'stderr', text: string) => void
}

export interface ShellResult {
  readonly command: string
  readonly run: RunResult
  readonly stdout: SideLogSummary
  readonly stderr: SideLogSummary
  readonly receipt: ReceiptRef
}

/**
 * Decides, records the begin, runs the command and records its end. Throws on a denial and returns a result otherwise.
 */
export async function runShell(deps: ShellDeps, input: ShellInput): Promise<ShellResult> {
  const argv = splitCommand(input.command)
  const command = redactCommand(input.command, argv)
  ensurePrivateFolder(deps.home.shellOutput, 'shell output folder')
  sweepUnfinished(deps.home.shellOutput)
  const envelope = await operatorEnvelope(deps, input.profile)
  const request = {
    operator: deps.operator,
    capability: 'shell.operator',
    operation: 'run',
    target: programReference(argv[0]!),
    policy_envelope_id: envelope.id,
    ...(input.grantId !== undefined && { grant_id: input.grantId }),
  }
  const decision = await decide(deps.store, deps.log, request, {
    kind: 'shell_invocation',
    isolation: 'none',
    links: { policy_envelope_id: envelope.id },
  })
  if (decision.effect === 'deny')
    throw policyDeniedError(decision, request, shellWithGrant(input.profile, command.text))

  using stdout = new SideLog(deps.home.shellOutput)
  using stderr = new SideLog(deps.home.shellOutput)
  await using sandbox = await deps.backend.create({ isolation: 'none', workspace: input.workingDirectory })
  const run = await sandbox.boundary.exec({
    argv,
    env: cleanEnvironment(deps.environment),
    timeoutMs: input.timeoutMs,
    signal: deps.signal,
    killSignal: deps.killSignal,
    cancelSignal: 'SIGINT',
    stdin: 'inherit',
    onStdout: (chunk) => input.onOutput('stdout', stdout.write(chunk)),
    onStderr: (chunk) => input.onOutput('stderr', stderr.write(chunk)),
  })
  const out = stdout.finish()
  const err = stderr.finish()
  input.onOutput('stdout', out.rest)
  input.onOutput('stderr', err.rest)
  const receipt = await decision.open.end({
    status: run.end === 'exited' && run.exitCode === 0 ? 'passed' : 'failed',
    isolation: sandbox.isolation,
    shell: {
      command: command.text.slice(0, 4096).toWellFormed(),
      working_directory: redactText(input.workingDirectory).text.slice(0, 4096).toWellFormed(),
      outcome: run.end,
      exit_code: run.end === 'exited' ? run.exitCode : null,
      signal: run.end === 'signalled' ? run.signal : null,
      stdout: streamFields(out.summary),
      stderr: streamFields(err.summary),
      duration_ms: run.durationMs,
      redactions_applied: [
        ...command.labels.map((label) => `command:${label}`),
        ...out.summary.labels.map((label) => `stdout:${label}`),
        ...err.summary.labels.map((label) => `stderr:${label}`),
      ],
    },
  })
  return { command: command.text, run, stdout: out.summary, stderr: err.summary, receipt }
}

/**
 * Returns the command as typed if nothing must be masked. Otherwise redacts word by word, because quotes and
 * backslashes hide where a secret begins and ends.
 */
function redactCommand(typed: string, argv: readonly string[]): RedactedText {
  const masked = argv.map((word) => {
    const [, start, name] = /^(-{0,2}([A-Za-z_][\w-]*)=)./s.exec(word) ?? []
    return name !== undefined && isSecretKey(name) ? start + REDACTED_LABEL : word
  })
  const words = redactValue(masked)
  const line = redactText(joinCommand(words.value))
  const labels = new Set([...redactText(typed).labels, ...words.labels, ...line.labels])
  if (masked.some((word, i) => word !== argv[i])) labels.add('key_value')
  return labels.size === 0 ? { text: typed, labels: [] } : { text: line.text, labels: [...labels].sort() }
}

/** Returns the command to run once the grant exists. Users fill in a long command themselves. */
function shellWithGrant(profile: PolicyProfile, command: string): string {
  const again = quoteArgument(command.length <= 200 ? command : '…')
  return `craik shell --profile ${profile} --grant GRANT_ID ${again}`
}

/**
 * Returns the exit code that a shell would report: the child's own code, 124 after a timeout, 126 or 127 when it never
 * ran.
 */
export function shellExitCode(run: RunResult, signals: Readonly<Record<string, number>>): number {
  switch (run.end) {
    case 'exited':
      return run.exitCode
    case 'signalled':
      return 128 + (signals[run.signal] ?? 0)
    case 'timeout':
      return 124
    case 'cancelled':
      return 130
    case 'output_limit':
      return 125
    case 'not_started':
      return run.reason === 'missing' ? 127 : 126
  }
}

/** Policy gets the program's name, or its hash when the name is not a reference. */
function programReference(program: string): string {
  const name = basename(program)
  if (REFERENCE.test(name) && redactText(name).labels.length === 0) return name
  return `program:${createHash('sha256').update(program).digest('hex').slice(0, 32)}`
}

function streamFields({ preview, bytes, sha256, complete }: SideLogSummary) {
  return { preview, bytes, sha256, complete }
}
