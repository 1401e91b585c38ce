/** Sends a job its input, from the byte that arrived last, as often as it takes. */
import { CraikError } from '../errors.ts'
import { BYTES_TYPE } from '../operator/api/names.ts'
import { BoundaryPatience } from './boundary-patience.ts'
import type { ApiClient } from './client.ts'
import type { InputWindow } from './input-window.ts'
import { type CallOptions, common, jobPath, query } from './paths.ts'
import { bodyFrom, jsonOf, type Transport } from './transport.ts'

/** The job is over, or wants no more: its output says the rest. */
const NO_MORE = new Set(['conflict', 'not_found', 'sandbox_stopped'])

/** `isNew`: nothing was sent to this job yet, so nobody has to be asked where it stands. */
export async function feedJob(
  client: ApiClient,
  sandbox: string,
  options: CallOptions & { readonly jobId: string; readonly isNew: boolean },
  input: InputWindow,
  signal: AbortSignal,
): Promise<void> {
  const { jobId } = options
  let known = options.isNew ? 0 : undefined
  const send = async (transport: Transport, progress: () => void) => {
    if (input.failure !== undefined)
      throw new CraikError('usage', `cannot read the input of the job: ${input.failure.message}`, {
        cause: input.failure,
      })
    const offset = known ?? (await client.jobs.get(sandbox, jobId, { signal })).input_offset
    known = undefined
    progress()
    input.resumeAt(offset)
    const response = await transport.send({
      method: 'POST',
      path: jobPath(sandbox, jobId, `/input${query({ offset, end: true })}`),
      body: bodyFrom(input.from(offset, signal)),
      headers: { 'content-type': BYTES_TYPE, ...common(options).headers },
      signal,
    })
    input.acknowledge((await jsonOf<{ offset: number }>(response)).offset)
  }
  const patience = new BoundaryPatience()
  const attempt = async (transport: Transport, progress: () => void) => {
    try {
      await send(transport, () => {
        progress()
        patience.reached()
      })
    } catch (error) {
      throw patience.judge(error)
    }
  }
  try {
    await client.link.persist(signal, attempt)
  } catch (error) {
    if (!signal.aborted && isTakenOver(error)) throw takenOver(jobId, error)
    if (signal.aborted || (error instanceof CraikError && NO_MORE.has(error.code))) return
    throw error
  }
}

function isTakenOver(error: unknown): error is CraikError {
  return error instanceof CraikError && error.details?.inside === 'changed'
}

function takenOver(jobId: string, cause: CraikError): CraikError {
  return new CraikError('conflict', `another client took over the input of ${jobId}`, {
    hint: 'it goes on there; in a shell, take it back with:  craik sandbox shell ID --attach JOB',
    cause,
  })
}
