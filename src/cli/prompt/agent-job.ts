/** Runs an agent as a job in a sandbox. Its input and output survive a crash of the supervisor. */
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
  /** The sandbox ends the agent after this time, even if no supervisor is left. */
  readonly timeoutMs: number
}

export interface AgentJob extends AgentProcess {
  readonly jobId: string
}

const MAX_COMPLAINT = 16 * 1024
const KILL_PATIENCE_MS = 5_000
/**
 * The sandbox ends the agent this long after its client has disconnected, because no other client can answer it.
 * Replacing a supervisor and connecting to the new one takes less time.
 */
const DISCONNECT_TIMEOUT_MS = 10_000

export function startAgentJob(
  client: ApiClient,
  sandbox: string,
  spec: AgentJobSpec,
  nowMs: number,
): AgentJob {
  const jobId = newId<string>('job', nowMs)
  const stdin = new PassThrough()
  // The agent may have ended before it read its last input.
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
      ends_when_left_ms: DISCONNECT_TIMEOUT_MS,
    },
    {
      jobId,
      stdin,
      signal: left.signal,
      // Copies the chunk, because it is a view of a larger buffer that is reused.
      onStdout: (chunk) => output.write(Uint8Array.from(chunk)).catch(() => {}),
      onStderr: (chunk) => {
        complaint = (complaint + chunk.toString()).slice(-MAX_COMPLAINT)
      },
    },
  ).then(
    ({ result: { outcome, exitCode, signal, error } }): AgentEnd => ({
      endDescription:
        error !== undefined
          ? `could not be run: ${error}`
          : outcome === 'timeout'
            ? 'timed out'
            : signal === null || signal === undefined
              ? `exited with ${exitCode}`
              : `was killed by ${signal}`,
      errorOutput: redactText(complaint).text,
    }),
    (error: unknown): AgentEnd => ({
      endDescription: `lost its connection: ${error instanceof Error ? error.message : String(error)}`,
      errorOutput: redactText(complaint).text,
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
