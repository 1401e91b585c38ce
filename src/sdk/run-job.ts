/**
 * Runs a job in a sandbox and follows it. When the supervisor dies or is replaced, output continues at the byte where
 * it broke off, and input at the last byte that arrived.
 */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { CraikError } from '../errors.ts'
import { Acknowledgements } from '../lib/acknowledgements.ts'
import { FRAME, FRAME_HEADER_BYTES, type Frame, FrameReader, isInLog } from '../lib/frames.ts'
import { HEADER } from '../operator/api/api-constants.ts'
import type { JobRequestBody } from '../operator/api/requests.ts'
import { type JobResult, LIMITS } from '../sidecar/protocol.ts'
import { type CallOptions, common, jobPath, query } from './api-paths.ts'
import type { ApiClient } from './client.ts'
import { feedJob } from './feed-job.ts'
import { InputWindow } from './input-window.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { TransferAttempts } from './transfer-attempts.ts'
import { LostConnection, responseChunks, type Transport } from './transport.ts'

export interface RunJobOptions extends CallOptions {
  /** Created by the client (`newId('job', …)`), so that a retry finds the job of the first attempt. */
  readonly jobId: string
  /**
   * The input of the job. Without it, a new job has no input. Only one client feeds a job: the last one that came with
   * an input. The run of the client before it ends with `conflict` at once.
   */
  readonly stdin?: Readable
  /** Called with the offset at which this input begins, in all the input that the job was sent. */
  readonly onInput?: (offset: number) => void
  /** No more output is read until the returned promise settles. */
  readonly onStdout?: (chunk: Buffer) => void | Promise<void>
  readonly onStderr?: (chunk: Buffer) => void | Promise<void>
  /** This many bytes of the log were dropped before they were read. */
  readonly onGap?: (lostBytes: number) => void
  /** Called when the job was started or found. `created` is false when its id was known. */
  readonly onStarted?: (started: { readonly receiptId: string; readonly created: boolean }) => void
}

export interface JobEnd {
  readonly result: JobResult
  readonly position: number
  readonly lostBytes: number
}

/** Output is acknowledged in steps of this size, and in smaller ones when the job waits for it. */
const STEP_BYTES = 1024 * 1024
const WINDOW_STEP_BYTES = 256 * 1024

/**
 * Starts the job and follows it to its end. Output that was delivered is acknowledged, and the sandbox keeps only the
 * end of it. Aborting `signal` stops the following, and the job continues.
 */
export function runJob(
  client: ApiClient,
  sandbox: string,
  spec: JobRequestBody,
  options: RunJobOptions,
): Promise<JobEnd> {
  return new JobRun(client, sandbox, spec, options).follow(0)
}

/**
 * Follows a job that was started before, from a position of its log on. It acknowledges nothing, so the output stays in
 * the sandbox.
 */
export function attachJob(
  client: ApiClient,
  sandbox: string,
  options: RunJobOptions & { readonly after?: number },
): Promise<JobEnd> {
  return new JobRun(client, sandbox, undefined, options).follow(options.after ?? 0)
}

class JobRun {
  readonly #client: ApiClient
  readonly #sandbox: string
  /** `undefined` when the job was started before. */
  readonly #spec: JobRequestBody | undefined
  readonly #options: RunJobOptions
  readonly #input: InputWindow | undefined
  /** Aborts when the end is known or the caller has stopped. It ends everything that was started for this run. */
  readonly #over = new AbortController()
  readonly #signal: AbortSignal
  #started: boolean
  #isNew = false
  #position = 0
  #lostBytes = 0
  readonly #acknowledgements: Acknowledgements | undefined
  readonly #deadlines = new RetryDeadlines()
  readonly #tries = new TransferAttempts()

  constructor(client: ApiClient, sandbox: string, spec: JobRequestBody | undefined, options: RunJobOptions) {
    this.#client = client
    this.#sandbox = sandbox
    this.#spec = spec
    this.#options = options
    this.#started = spec === undefined
    // A job that was started before may have input from other clients. This input begins at the current offset.
    this.#input = options.stdin && new InputWindow(options.stdin, spec === undefined ? undefined : 0)
    // A terminal keeps its newest output for every reader, so nothing is acknowledged.
    if (spec !== undefined && spec.kind !== 'terminal')
      this.#acknowledgements = new Acknowledgements({
        send: (position) => this.#acknowledge(position),
        fromBytes: LIMITS.logMemoryBytes,
        stepBytes: spec.kind === 'tar-out' ? WINDOW_STEP_BYTES : STEP_BYTES,
      })
    this.#signal = options.signal ? AbortSignal.any([options.signal, this.#over.signal]) : this.#over.signal
  }

  async follow(after: number): Promise<JobEnd> {
    this.#position = after
    // Only an input that fails by itself ends the run before its job ends.
    const inputFailed = Promise.withResolvers<never>()
    inputFailed.promise.catch(() => {})
    let feeding: Promise<void> | undefined
    const feed = () => {
      if (this.#input === undefined) return
      const options = { ...this.#options, isNew: this.#isNew }
      feeding ??= feedJob(this.#client, this.#sandbox, options, this.#input, this.#signal).catch(
        inputFailed.reject,
      )
    }
    try {
      const reading = this.#client.link.persist(this.#signal, (transport, progress) =>
        this.#read(transport, progress, feed).catch((error) => {
          throw this.#tries.checkError(error)
        }),
      )
      const result = await Promise.race([reading, inputFailed.promise])
      return { result, position: this.#position, lostBytes: this.#lostBytes }
    } finally {
      this.#over.abort(new CraikError('interrupted', 'the client stopped following the job'))
      this.#acknowledgements?.close()
      this.#input?.close()
      await feeding
    }
  }

  /** Reads the output of one connection. */
  async #read(transport: Transport, progress: () => void, feed: () => void): Promise<JobResult> {
    const response = await this.#open(transport)
    progress()
    feed()
    this.#acknowledgements?.repeat()
    const frames = new FrameReader()
    for await (const chunk of responseChunks(response)) {
      progress()
      this.#deadlines.reset()
      this.#tries.reset()
      for (const frame of frames.push(chunk)) {
        const result = await this.#take(frame)
        if (result !== undefined) return result
      }
    }
    throw new LostConnection(new Error('the output ended before the job'), true)
  }

  async #open(transport: Transport): Promise<IncomingMessage> {
    const { jobId } = this.#options
    try {
      if (!this.#started) {
        const response = await transport.send({
          method: 'PUT',
          path: jobPath(this.#sandbox, jobId),
          json: this.#spec,
          ...common(this.#options),
          signal: this.#signal,
        })
        this.#started = true
        this.#isNew = response.headers[HEADER.created] === '1'
        this.#options.onStarted?.({
          receiptId: String(response.headers[HEADER.receipt] ?? ''),
          created: this.#isNew,
        })
        return response
      }
      return await transport.send({
        method: 'GET',
        path: jobPath(this.#sandbox, jobId, `/output${query({ after: this.#position })}`),
        ...common(this.#options),
        signal: this.#signal,
      })
    } catch (error) {
      throw this.#started ? this.#deadlines.checkError(error) : error
    }
  }

  async #take(frame: Frame): Promise<JobResult | undefined> {
    const { payload } = frame
    if (frame.type === FRAME.stdout) await this.#options.onStdout?.(payload)
    else if (frame.type === FRAME.stderr) await this.#options.onStderr?.(payload)
    else if (frame.type === FRAME.ack)
      this.#input?.acknowledge(parseFrame<{ offset: number }>(payload).offset)
    else if (frame.type === FRAME.gap) this.#skip(parseFrame<{ to: number }>(payload).to)
    // Only delivered output counts as read, so that nothing is lost when the connection breaks in between.
    if (isInLog(frame.type)) this.#position += FRAME_HEADER_BYTES + payload.length
    this.#acknowledgements?.acknowledge(this.#position)
    if (frame.type !== FRAME.exit) return undefined
    const result = parseFrame<JobResult>(payload)
    if (!this.#signal.aborted) await this.#acknowledgements?.end()
    return result
  }

  #skip(to: number): void {
    if (!Number.isSafeInteger(to) || to <= this.#position) return
    this.#lostBytes += to - this.#position
    this.#options.onGap?.(to - this.#position)
    this.#position = to
  }

  #acknowledge(position: number): Promise<void> {
    return this.#client.link.sendAndDiscard({
      method: 'POST',
      path: jobPath(this.#sandbox, this.#options.jobId, '/ack'),
      json: { position },
      idempotent: true,
      ...common(this.#options),
      signal: this.#signal,
    })
  }
}

function parseFrame<T>(payload: Buffer): T {
  try {
    return JSON.parse(payload.toString()) as T
  } catch (cause) {
    throw new CraikError('boundary_failed', 'cannot read the output of the job: a frame is malformed', {
      cause,
    })
  }
}
