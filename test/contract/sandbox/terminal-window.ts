/** Simulates a user at a terminal in the sandbox, who types, reads and exits. */
import { PassThrough } from 'node:stream'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { type JobEnd, runJob } from '../../../src/sdk/run-job.ts'
import { type ContractInstance, newJobId } from './instance.ts'

type TerminalBody = Extract<JobRequestBody, { readonly kind: 'terminal' }>

const PATIENCE_MS = 60_000

export class TerminalWindow implements AsyncDisposable {
  readonly jobId = newJobId()
  readonly ended: Promise<JobEnd>
  readonly #instance: ContractInstance
  readonly #keys = new PassThrough()
  readonly #waiting = new Set<() => void>()
  #text = ''

  constructor(instance: ContractInstance, argv: readonly string[], options: Partial<TerminalBody> = {}) {
    this.#instance = instance
    const spec: TerminalBody = {
      kind: 'terminal',
      argv: [...argv],
      cols: 80,
      rows: 24,
      term: 'xterm-256color',
      ...options,
    }
    this.ended = runJob(instance.client, instance.box.id, spec, {
      jobId: this.jobId,
      stdin: this.#keys,
      onStdout: (chunk) => {
        this.#text += chunk.toString('latin1')
        for (const look of this.#waiting) look()
      },
    })
    this.ended.catch(() => {})
  }

  /** All output so far, one character for each byte. */
  get text(): string {
    return this.#text
  }

  types(keys: string): void {
    this.#keys.write(keys)
  }

  resize(cols: number, rows: number): Promise<void> {
    return this.#instance.client.jobs.resize(this.#instance.box.id, this.jobId, cols, rows)
  }

  /** Waits until a text appeared this many times. */
  shows(what: string, times = 1): Promise<void> {
    return new Promise((done, fail) => {
      const look = () => {
        if (this.#text.split(what).length <= times) return
        clearTimeout(timer)
        this.#waiting.delete(look)
        done()
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(look)
        fail(new Error(`${JSON.stringify(what)} was not shown: ${JSON.stringify(this.#text.slice(-2000))}`))
      }, PATIENCE_MS)
      this.#waiting.add(look)
      look()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#instance.client.jobs.cancel(this.#instance.box.id, this.jobId).catch(() => {})
    this.#keys.destroy()
    await this.ended.catch(() => {})
  }
}
