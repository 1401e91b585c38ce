/** Connects a terminal in a sandbox to the user's terminal. */
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import { FRAME_HEADER_BYTES } from '../../lib/frames.ts'
import type { JobBody } from '../../operator/api/bodies.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { isTakeover } from '../../sdk/feed-job.ts'
import { attachJob, type JobEnd, type RunJobOptions, runJob } from '../../sdk/run-job.ts'
import type { CliContext } from '../context.ts'
import { DetachKeys } from './detach-keys.ts'
import { RawTerminal } from './raw-terminal.ts'
import { ReplayBuffer } from './replay-buffer.ts'
import { writeTo } from './write-output.ts'

/** Starts bash if the sandbox has it. */
export const LOGIN_SHELL: readonly string[] = [
  '/bin/sh',
  '-c',
  'command -v bash >/dev/null && exec bash -l; exec sh -l',
]

/** Detaching waits this long for the input that the user typed before. */
const DETACH_TIMEOUT_MS = 2_000
const POLL_MS = 20

/** Connects the two terminals until one of them ends or the user detaches. */
export class TerminalSession {
  readonly #context: CliContext
  readonly #client: ApiClient
  readonly #sandbox: string
  readonly #options: RunJobOptions
  readonly #left = new AbortController()
  readonly #typed = new PassThrough()
  #gate = new ReplayBuffer(0)
  /** True if output of the sandbox is on the screen. */
  #shown = false
  /** The offset at which this client's input begins in all input of the terminal. Undefined until it is known. */
  #inputBase: number | undefined
  #typedBytes = 0

  constructor(context: CliContext, client: ApiClient, sandbox: string, jobId: string, grant?: string) {
    this.#context = context
    this.#client = client
    this.#sandbox = sandbox
    this.#options = {
      jobId,
      stdin: this.#typed,
      signal: AbortSignal.any([this.#left.signal, context.signal]),
      onStdout: async (chunk) => {
        this.#shown = true
        await writeTo(context.stdout, chunk)
        this.#gate.advance(FRAME_HEADER_BYTES + chunk.length)
      },
      onInput: (offset) => {
        this.#inputBase = offset
      },
      onGap: (lostBytes) => this.#gate.advance(lostBytes),
      ...(grant !== undefined && { grantId: grant }),
    }
  }

  /** Returns undefined if the user detached. Without a spec, attaches to a running terminal. */
  async run(spec: ((cols: number, rows: number) => JobRequestBody) | undefined): Promise<JobEnd | undefined> {
    if (spec === undefined) {
      this.#gate = new ReplayBuffer((await this.#status()).position)
    }
    using terminal = new RawTerminal(this.#context)
    const { cols, rows } = terminal.size
    const resize = (size: { readonly cols: number; readonly rows: number }) => {
      // The next resize corrects a size that did not arrive.
      this.#client.jobs.resize(this.#sandbox, this.#options.jobId, size.cols, size.rows).catch(() => {})
    }
    terminal.onResize(resize)
    const stopTyping = this.#type()
    try {
      if (spec !== undefined)
        return await runJob(this.#client, this.#sandbox, spec(cols, rows), this.#options)
      resize(terminal.size)
      return await attachJob(this.#client, this.#sandbox, this.#options)
    } catch (error) {
      if (this.#shown) terminal.clear()
      if (this.#options.signal?.aborted) return undefined
      throw isTakeover(error) ? this.#takenOverError(error) : error
    } finally {
      stopTyping()
    }
  }

  #takenOverError(error: CraikError): CraikError {
    const back = `craik sandbox shell ${this.#sandbox} --attach ${this.#options.jobId}`
    return new CraikError(error.code, error.message, {
      hint: `take the terminal over again:  ${back}`,
      ...(error.details && { details: error.details }),
      cause: error,
    })
  }

  /** Waits until the input before the detach keys has arrived, unless that takes too long. */
  async #end(): Promise<void> {
    const deadline = AbortSignal.timeout(DETACH_TIMEOUT_MS)
    try {
      while (!deadline.aborted && !(await this.#hasArrived())) await sleep(POLL_MS)
    } catch {
      // A supervisor that does not answer does not accept the input either.
    }
    this.#left.abort()
  }

  async #hasArrived(): Promise<boolean> {
    if (this.#typedBytes === 0) return true
    const base = this.#inputBase
    return base !== undefined && (await this.#status()).input_offset >= base + this.#typedBytes
  }

  #status(): Promise<JobBody> {
    return this.#client.jobs.get(this.#sandbox, this.#options.jobId, {
      signal: AbortSignal.timeout(DETACH_TIMEOUT_MS),
    })
  }

  #type(): () => void {
    const { stdin } = this.#context
    const keys = new DetachKeys()
    const onData = (chunk: Buffer) => {
      // The detach keys work at any time, even while input is dropped.
      const { data, detached } = keys.push(chunk)
      const admitted = this.#gate.admit(data)
      if (admitted.length > 0 && !this.#typed.destroyed) this.#typed.write(admitted)
      this.#typedBytes += admitted.length
      if (detached) void this.#end()
    }
    stdin.on('data', onData)
    return () => {
      stdin.off('data', onData)
      this.#typed.destroy()
    }
  }
}

export function termOf({ environment }: CliContext): string {
  const term = environment.TERM ?? ''
  return /^[A-Za-z0-9._+-]{1,64}$/.test(term) ? term : 'xterm-256color'
}
