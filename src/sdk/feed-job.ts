/** Sends a job its input, from the byte that arrived last, as often as it takes. */
import { randomUUID } from 'node:crypto'
import { CraikError } from '../errors.ts'
import { BYTES_TYPE } from '../operator/api/api-constants.ts'
import { type CallOptions, common, jobPath, query } from './api-paths.ts'
import type { ApiClient } from './client.ts'
import type { InputWindow } from './input-window.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { bodyFrom, jsonOf, type Transport } from './transport.ts'

/** The job is over, or wants no more: its output says the rest. */
const NO_MORE = new Set(['conflict', 'not_found', 'sandbox_stopped'])

export interface FeedOptions extends CallOptions {
  readonly jobId: string
  /** Nothing was sent to this job yet, so nobody has to be asked where it stands, and nobody has to give way. */
  readonly isNew: boolean
  /** From this offset of the job's input on, it is this client that feeds it. */
  readonly onInput?: (offset: number) => void
}

/**
 * Takes the input of a job over from whoever feeds it, then sends. When another client does the same, it fails with
 * `conflict` and does not come back.
 */
export async function feedJob(
  client: ApiClient,
  sandbox: string,
  options: FeedOptions,
  input: InputWindow,
  signal: AbortSignal,
): Promise<void> {
  const { jobId } = options
  const turn = randomUUID()
  const headers = { 'content-type': BYTES_TYPE, ...common(options).headers }
  let known = options.isNew ? 0 : undefined
  let isMine = options.isNew
  /** Where the input stands. Asked for like this, nobody can have sent more of it meanwhile. */
  const readInputOffset = async (transport: Transport): Promise<number> => {
    const path = jobPath(sandbox, jobId, `/input${query({ offset: 0, turn, take: !isMine })}`)
    const response = await transport.send({ method: 'POST', path, headers, signal })
    const { offset } = await jsonOf<{ offset: number }>(response)
    isMine = true
    return offset
  }
  const send = async (transport: Transport, progress: () => void) => {
    if (input.failure !== undefined)
      throw new CraikError('usage', `cannot read the input of the job: ${input.failure.message}`, {
        cause: input.failure,
      })
    const offset = known ?? (await readInputOffset(transport))
    known = undefined
    progress()
    if (input.resumeAt(offset)) options.onInput?.(offset)
    const response = await transport.send({
      method: 'POST',
      path: jobPath(sandbox, jobId, `/input${query({ offset, end: true, turn })}`),
      body: bodyFrom(input.from(offset, signal)),
      headers,
      signal,
    })
    input.acknowledge((await jsonOf<{ offset: number }>(response)).offset)
  }
  const deadlines = new RetryDeadlines()
  const attempt = async (transport: Transport, progress: () => void) => {
    try {
      await send(transport, () => {
        progress()
        deadlines.reset()
      })
    } catch (error) {
      throw deadlines.checkError(error)
    }
  }
  try {
    await client.link.persist(signal, attempt)
  } catch (error) {
    if (!signal.aborted && isLost(error)) throw takenOverError(sandbox, jobId, input, error)
    if (signal.aborted || (error instanceof CraikError && NO_MORE.has(error.code))) return
    throw error
  }
}

/** The run ended because another client feeds its job now. */
export function isTakeover(error: unknown): error is CraikError {
  return error instanceof CraikError && error.details?.taken_over !== undefined
}

/** What the sandbox says to whoever lost the input. */
function isLost(error: unknown): error is CraikError {
  return error instanceof CraikError && error.details?.inside === 'changed'
}

function takenOverError(sandbox: string, jobId: string, input: InputWindow, cause: CraikError): CraikError {
  const reported = cause.details?.offset
  const left = input.unsentBytes(typeof reported === 'number' ? reported : undefined)
  // Told while it sent, it knows to the byte. Who was away meanwhile does not.
  const rest = typeof reported === 'number' ? 'did not arrive' : 'may not have arrived'
  const lost = left === 0 ? '' : `; the last ${left.toLocaleString('en')} bytes from here ${rest}`
  return new CraikError('conflict', `another client took over the input of ${jobId}${lost}`, {
    hint: `watch the job:  craik sandbox logs ${sandbox} --job ${jobId} --follow`,
    details: { taken_over: jobId, unsent_bytes: left },
    cause,
  })
}
