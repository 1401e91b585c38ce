/** An agent as a job in a sandbox: what it is told and what it says survive a supervisor that dies in between. */
import { PassThrough, Writable } from 'node:stream'
import type { AgentEnd, AgentProcess } from '../../harnesses/acp/agent-process.ts'
import { newId } from '../../lib/ids.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'

export interface AgentJobSpec {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** It is ended after this long, also when no supervisor is left to end it. */
  readonly timeoutMs: number
}

export interface AgentJob extends AgentProcess {
  readonly jobId: string
}

const MAX_COMPLAINT = 16 * 1024
const KILL_PATIENCE_MS = 5_000
/** Longer than a supervisor takes to be replaced and found again; nobody else can answer an agent. */
const LEFT_MS = 10_000

export function startAgentJob(
  client: ApiClient,
  sandbox: string,
  spec: AgentJobSpec,
  nowMs: number,
): AgentJob {
  const jobId = newId<string>('job', nowMs)
  const stdin = new PassThrough()
  // Whatever it was told last may go nowhere any more.
  stdin.on('error', () => {})
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const output = writable.getWriter()
  output.closed.catch(() => {})
  const left = new AbortController()
  let complaint = ''
  const ended = runJob(
    client,
    sandbox,
    {
      kind: 'exec',
      argv: [...spec.argv],
      cwd: spec.cwd,
      env: { ...spec.env },
      stdin: true,
      timeout_ms: spec.timeoutMs,
      ends_when_left_ms: LEFT_MS,
    },
    {
      jobId,
      stdin,
      signal: left.signal,
      // A view of a larger buffer, which is used again.
      onStdout: (chunk) => output.write(Uint8Array.from(chunk)).catch(() => {}),
      onStderr: (chunk) => {
        complaint = (complaint + chunk.toString()).slice(-MAX_COMPLAINT)
      },
    },
  ).then(
    ({ result: { outcome, exitCode, signal, error } }): AgentEnd => ({
      how:
        error !== undefined
          ? `could not be run: ${error}`
          : outcome === 'timeout'
            ? 'timed out'
            : signal === null || signal === undefined
              ? `exited with ${exitCode}`
              : `was killed by ${signal}`,
      complaint: redactText(complaint).text,
    }),
    (error: unknown): AgentEnd => ({
      how: `lost its connection: ${error instanceof Error ? error.message : String(error)}`,
      complaint: redactText(complaint).text,
    }),
  )
  void ended.then(() => output.close().catch(() => {}))
  let killed: Promise<void> | undefined
  return {
    jobId,
    input: Writable.toWeb(stdin) as WritableStream<Uint8Array>,
    output: readable,
    ended,
    kill() {
      killed ??= client.jobs
        .cancel(sandbox, jobId, { signal: AbortSignal.timeout(KILL_PATIENCE_MS) })
        .catch(() => {})
        .finally(() => left.abort())
      return killed
    },
  }
}
