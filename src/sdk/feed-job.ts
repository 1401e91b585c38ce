/** Sends a job its input, from the last byte that arrived, and reconnects as often as necessary. */
import { randomUUID } from 'node:crypto'
import { CraikError } from '../errors.ts'
import { BYTES_TYPE } from '../operator/api/api-constants.ts'
import { type CallOptions, common, jobPath, query } from './api-paths.ts'
import type { ApiClient } from './client.ts'
import type { InputWindow } from './input-window.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { bodyFrom, jsonOf, type Transport } from './transport.ts'

/** The job has ended or accepts no more input. Its output shows the rest. */
const NO_MORE = new Set(['conflict', 'not_found', 'sandbox_stopped'])

export interface FeedOptions extends CallOptions {
  readonly jobId: string
  /** Nothing was sent to this job yet. So its offset is known, and no other client has to stop. */
  readonly isNew: boolean
  /** Called with the offset of the job's input from which this client feeds it. */
  readonly onInput?: (offset: number) => void
}

/**
 * Takes the input of a job over from any client that feeds it, then sends. When another client takes it over in turn,
 * this call fails with `conflict` and does not retry.
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
  /**
   * Returns the offset of the input. The request also takes the input over, so no other client can send more in the
   * meantime.
   */
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

/** Returns whether the run ended because another client feeds its job now. */
export function isTakeover(error: unknown): error is CraikError {
  return error instanceof CraikError && error.details?.taken_over !== undefined
}

/** Returns whether the sandbox reports that this client lost the input. */
function isLost(error: unknown): error is CraikError {
  return error instanceof CraikError && error.details?.inside === 'changed'
}

function takenOverError(sandbox: string, jobId: string, input: InputWindow, cause: CraikError): CraikError {
  const reported = cause.details?.offset
  const left = input.unsentBytes(typeof reported === 'number' ? reported : undefined)
  // A client that loses the input while it sends gets the exact offset. A client that was disconnected does not.
  const rest = typeof reported === 'number' ? 'did not arrive' : 'may not have arrived'
  const lost = left === 0 ? '' : `; the last ${left.toLocaleString('en')} bytes from here ${rest}`
  return new CraikError('conflict', `another client took over the input of ${jobId}${lost}`, {
    hint: `watch the job:  craik sandbox logs ${sandbox} --job ${jobId} --follow`,
    details: { taken_over: jobId, unsent_bytes: left },
    cause,
  })
}
