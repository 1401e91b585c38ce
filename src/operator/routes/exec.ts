/**
 * The route that runs a command to its end and returns its output in the response, for callers that need no streams.
 */
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { Acknowledgements } from '../../lib/acknowledgements.ts'
import { FRAME, FRAME_HEADER_BYTES, FrameReader, isInLog } from '../../lib/frames.ts'
import { type JobId, newId, type SandboxId } from '../../lib/ids.ts'
import type { ManagerCaller, SandboxManager } from '../../sandboxes/manager-types.ts'
import { type JobResult, LIMITS } from '../../sidecar/protocol.ts'
import { API_LIMITS } from '../api/api-constants.ts'
import type { CapturedBody, ExecBody } from '../api/bodies.ts'
import { execBody, sandboxParams } from '../api/requests.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'
import { toJobRequest } from '../job-request.ts'

const STEP_BYTES = 1024 * 1024

export function execRoute(app: Api, { manager, caller }: RouteContext): void {
  app.post(
    '/api/sandboxes/:id/exec',
    { schema: { params: sandboxParams, body: execBody } },
    async (request, reply): Promise<ExecBody> => {
      const sandboxes = await manager()
      const id = await resolveSandboxId(sandboxes, request.params.id)
      const { job_id, stdin, stdin_encoding, ...spec } = request.body
      const job = (job_id ?? newId('job', Date.now())) as JobId
      const managerCaller = await caller(request, reply)
      const started = await sandboxes.jobs.start(
        managerCaller,
        id,
        job,
        toJobRequest({ kind: 'exec', ...spec, stdin: stdin !== undefined }),
      )
      // Without a job id, the client cannot request the output again, so Craik cancels the command when the client
      // disconnects.
      if (job_id === undefined)
        managerCaller.signal.addEventListener('abort', () => abandon(sandboxes, managerCaller, id, job))
      if (stdin !== undefined && started.created)
        void feed(sandboxes, managerCaller, id, job, Buffer.from(stdin, stdin_encoding))
      const acknowledgements = new Acknowledgements({
        send: (position) => sandboxes.jobs.acknowledge(managerCaller, id, job, position),
        // A client with a job id can request the whole output again, so nothing is acknowledged.
        fromBytes: job_id === undefined ? LIMITS.logMemoryBytes : Number.POSITIVE_INFINITY,
        stepBytes: STEP_BYTES,
      })
      try {
        const collected = await collect(job, started.output, acknowledgements)
        return { job_id: job, receipt_id: started.receiptId, ...collected }
      } finally {
        acknowledgements.close()
      }
    },
  )
}

/** Cancels the job in the caller's name but without the caller's signal, because the caller has disconnected. */
function abandon(sandboxes: SandboxManager, managerCaller: ManagerCaller, id: SandboxId, job: JobId): void {
  const deadline = AbortSignal.timeout(5_000)
  sandboxes.jobs.cancel({ ...managerCaller, signal: deadline }, id, job).catch(() => {})
}

/** Ignores errors, because a command can exit without reading its input. Its result then says everything. */
async function feed(
  sandboxes: SandboxManager,
  managerCaller: ManagerCaller,
  id: SandboxId,
  job: JobId,
  input: Buffer,
): Promise<void> {
  const body = Readable.from(input.length === 0 ? [] : [input], { objectMode: false })
  await sandboxes.jobs.input(managerCaller, id, job, { offset: 0, end: true, body }).catch(() => {})
}

async function collect(
  job: JobId,
  output: Readable,
  acknowledgements: Acknowledgements,
): Promise<Omit<ExecBody, 'job_id' | 'receipt_id'>> {
  const stdout = new Captured()
  const stderr = new Captured()
  const frames = new FrameReader()
  let position = 0
  for await (const chunk of output as AsyncIterable<Buffer>) {
    for (const { type, payload } of frames.push(chunk)) {
      if (isInLog(type)) position += FRAME_HEADER_BYTES + payload.length
      acknowledgements.acknowledge(position)
      if (type === FRAME.stdout) stdout.add(payload)
      else if (type === FRAME.stderr) stderr.add(payload)
      else if (type === FRAME.gap) {
        stdout.truncated = true
        position = (JSON.parse(payload.toString()) as { to: number }).to
      } else if (type === FRAME.exit) {
        await acknowledgements.end()
        return toExecBody(payload, stdout, stderr)
      }
    }
  }
  throw new CraikError(
    'boundary_failed',
    `the output of job ${job} ended before the command did; the command may still be running`,
    { hint: `follow the command:  craik sandbox logs ID --job ${job} --follow` },
  )
}

function toExecBody(
  payload: Buffer,
  stdout: Captured,
  stderr: Captured,
): Omit<ExecBody, 'job_id' | 'receipt_id'> {
  const { outcome, exitCode, signal, error, durationMs } = JSON.parse(payload.toString()) as JobResult
  return {
    outcome,
    exit_code: exitCode,
    signal,
    ...(error !== undefined && { error }),
    duration_ms: durationMs,
    stdout: stdout.body(),
    stderr: stderr.body(),
  }
}

/** Keeps the beginning of a stream. It reads and drops everything over the limit. */
class Captured {
  readonly #chunks: Buffer[] = []
  #bytes = 0
  truncated = false

  add(chunk: Buffer): void {
    const available = API_LIMITS.bufferedBytes - this.#bytes
    if (chunk.length > available) this.truncated = true
    if (available <= 0) return
    // A copy, because a frame is a view of a larger buffer, which it would keep in memory.
    this.#chunks.push(Buffer.from(chunk.subarray(0, available)))
    this.#bytes += Math.min(chunk.length, available)
  }

  body(): CapturedBody {
    const bytes = Buffer.concat(this.#chunks)
    const text = decode(bytes)
    return text === undefined
      ? { encoding: 'base64', data: bytes.toString('base64'), truncated: this.truncated }
      : { encoding: 'utf8', data: text, truncated: this.truncated }
  }
}

function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
