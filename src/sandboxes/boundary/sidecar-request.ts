/** Sends a request to a sidecar and waits for the response, or for its start, until the deadline at most. */
import type { ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from 'node:http2'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { MAX_ERROR_BYTES } from './boundary-timeouts.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { invalidResponse, parseSidecarAnswer, sidecarRefusal } from './sidecar-responses.ts'

export type AnswerHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader

export interface ResponseStart {
  readonly stream: ClientHttp2Stream
  readonly headers: AnswerHeaders
  readonly status: number
}

interface RequestOptions {
  readonly body?: unknown
  readonly maxBytes?: number
  readonly deadlineMs?: number
}

/** Returns the whole response, parsed. */
export async function requestJson<T>(
  connection: BoundaryConnection,
  request: SidecarRequest,
  schema: z.ZodType<T>,
  until: AbortSignal,
  options: RequestOptions = {},
): Promise<T> {
  const { stream, wait } = begin(connection, request, until, options)
  try {
    const { status } = await wait.answered
    const body = await collectBody(stream, options.maxBytes ?? LIMITS.jsonBytes, connection, request, wait)
    if (!isSuccess(status)) throw sidecarRefusal(body, status, request.doing)
    return parseSidecarAnswer(schema, body, request.doing)
  } catch (error) {
    cut(stream)
    throw error
  } finally {
    wait.stop()
  }
}

/** Sends a request whose response contains nothing but the confirmation. */
export async function sendRequest(
  connection: BoundaryConnection,
  request: SidecarRequest,
  until: AbortSignal,
  options: RequestOptions = {},
): Promise<void> {
  await requestJson(connection, request, z.unknown(), until, options)
}

/** Returns the start of a response that is a stream. From then on, the stream belongs to the caller. */
export async function requestStream(
  connection: BoundaryConnection,
  request: SidecarRequest,
  until: AbortSignal,
  options: RequestOptions & { readonly duplex?: boolean } = {},
): Promise<ResponseStart> {
  const { stream, wait } = begin(connection, request, until, options)
  try {
    const answered = await wait.answered
    if (!isSuccess(answered.status)) await refuse(answered, connection, request, wait)
    return answered
  } catch (error) {
    cut(stream)
    throw error
  } finally {
    wait.stop()
  }
}

async function refuse(
  answered: ResponseStart,
  connection: BoundaryConnection,
  request: SidecarRequest,
  wait: Wait,
): Promise<never> {
  const body = await collectBody(answered.stream, MAX_ERROR_BYTES, connection, request, wait)
  throw sidecarRefusal(body, answered.status, request.doing)
}

export function isSuccess(status: number): boolean {
  return status === 200 || status === 201
}

function begin(
  connection: BoundaryConnection,
  request: SidecarRequest,
  until: AbortSignal,
  options: RequestOptions & { readonly duplex?: boolean },
): { stream: ClientHttp2Stream; wait: Wait } {
  if (until.aborted) throw abortError(until, request.doing)
  const body = options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body))
  if (body && body.length > LIMITS.jsonBytes) {
    throw new CraikError(
      'too_large',
      `cannot ${request.doing}: the request is over ${LIMITS.jsonBytes} bytes`,
    )
  }
  const stream = connection.open(request, body === undefined && !options.duplex)
  if (body) stream.end(body)
  return { stream, wait: new Wait(connection, stream, request, until, options) }
}

/** The wait for a response. It fails at the deadline, when the caller aborts, or when the stream closes. */
export class Wait {
  /** Resolves with the first headers that are a response, not with informational ones. */
  readonly answered: Promise<ResponseStart>
  /** Rejects, or stays pending. It never resolves. */
  readonly failed: Promise<never>
  readonly #deadlineMs: number
  readonly #isLate: () => void
  readonly #release: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(
    connection: BoundaryConnection,
    stream: ClientHttp2Stream,
    { doing }: SidecarRequest,
    until: AbortSignal,
    options: { readonly deadlineMs?: number | undefined; readonly deadline?: false } = {},
  ) {
    this.#deadlineMs = options.deadlineMs ?? connection.timeouts.answerMs
    const { promise, reject } = Promise.withResolvers<never>()
    this.failed = promise
    const onAbort = () => reject(abortError(until, doing))
    const rejectOnClose = () => reject(connection.brokenStreamError(doing))
    this.#isLate = () => reject(deadlineError(doing, this.#deadlineMs))
    until.addEventListener('abort', onAbort, { once: true })
    stream.once('close', rejectOnClose)
    this.#release = () => {
      until.removeEventListener('abort', onAbort)
      stream.off('close', rejectOnClose)
    }
    if (options.deadline !== false) this.startDeadline()
    const headers = new Promise<ResponseStart>((resolve) => {
      stream.once('response', (headers) => resolve({ stream, headers, status: headers[':status'] ?? 0 }))
    })
    this.answered = Promise.race([headers, this.failed])
    // Both may reject after the last caller has stopped waiting.
    this.failed.catch(() => {})
    this.answered.catch(() => {})
  }

  startDeadline(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#isLate, this.#deadlineMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#release()
  }
}

function deadlineError(doing: string, waitedMs: number): CraikError {
  return new CraikError(
    'boundary_failed',
    `cannot ${doing}: the sandbox did not answer within ${waitedMs} ms`,
  )
}

/** Reads a body to its end. Fails when the body has more than `maxBytes`. */
export async function collectBody(
  stream: ClientHttp2Stream,
  maxBytes: number,
  connection: BoundaryConnection,
  request: SidecarRequest,
  wait: Wait,
): Promise<Buffer> {
  const whole = new Promise<Buffer>((resolve, reject) => {
    // One buffer grows with the data. A chunk for each byte would take a hundred times its size.
    let buffer = Buffer.allocUnsafe(4096)
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      if (bytes + chunk.length > maxBytes) {
        reject(invalidResponse(request.doing, `more than ${maxBytes} bytes`))
        cut(stream)
        return
      }
      if (bytes + chunk.length > buffer.length) {
        const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, bytes + chunk.length))
        buffer.copy(larger, 0, 0, bytes)
        buffer = larger
      }
      bytes += chunk.copy(buffer, bytes)
    })
    stream.once('end', () => {
      if (stream.rstCode) reject(connection.brokenStreamError(request.doing))
      else resolve(buffer.subarray(0, bytes))
    })
  })
  return Promise.race([whole, wait.failed])
}

/** Returns why the caller's wait ended: its own reason if that is a `CraikError`, otherwise an interruption. */
export function abortError(until: AbortSignal, doing: string): CraikError {
  if (until.reason instanceof CraikError) return until.reason
  return new CraikError('interrupted', `interrupted before Craik could ${doing}`, {
    cause: until.reason,
  })
}
