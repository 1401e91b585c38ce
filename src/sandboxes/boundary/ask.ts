/** Asks a sidecar something and waits for the answer, or for the beginning of one, no longer than its deadline. */
import type { ClientHttp2Stream, IncomingHttpHeaders, IncomingHttpStatusHeader } from 'node:http2'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { lied, parseSidecarAnswer, sidecarRefusal } from './answers.ts'
import { cut, type Line, type Question } from './connection.ts'
import { MAX_ERROR_BYTES } from './timeouts.ts'

export type AnswerHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader

export interface Answered {
  readonly stream: ClientHttp2Stream
  readonly headers: AnswerHeaders
  readonly status: number
}

interface AskOptions {
  readonly body?: unknown
  readonly maxBytes?: number
  readonly deadlineMs?: number
}

/** The whole answer, parsed. */
export async function requestJson<T>(
  line: Line,
  question: Question,
  schema: z.ZodType<T>,
  until: AbortSignal,
  options: AskOptions = {},
): Promise<T> {
  const { stream, wait } = begin(line, question, until, options)
  try {
    const { status } = await wait.answered
    const body = await collect(stream, options.maxBytes ?? LIMITS.jsonBytes, line, question, wait)
    if (!isSuccess(status)) throw sidecarRefusal(body, status, question.doing)
    return parseSidecarAnswer(schema, body, question.doing)
  } catch (error) {
    cut(stream)
    throw error
  } finally {
    wait.over()
  }
}

/** Asks for something to be done that has no answer but that it was done. */
export async function tell(
  line: Line,
  question: Question,
  until: AbortSignal,
  options: AskOptions = {},
): Promise<void> {
  await requestJson(line, question, z.unknown(), until, options)
}

/** The beginning of an answer that is a stream, which is the caller's from then on. */
export async function askForStream(
  line: Line,
  question: Question,
  until: AbortSignal,
  options: AskOptions & { readonly duplex?: boolean } = {},
): Promise<Answered> {
  const { stream, wait } = begin(line, question, until, options)
  try {
    const answered = await wait.answered
    if (!isSuccess(answered.status)) await refuse(answered, line, question, wait)
    return answered
  } catch (error) {
    cut(stream)
    throw error
  } finally {
    wait.over()
  }
}

async function refuse(answered: Answered, line: Line, question: Question, wait: Wait): Promise<never> {
  const body = await collect(answered.stream, MAX_ERROR_BYTES, line, question, wait)
  throw sidecarRefusal(body, answered.status, question.doing)
}

export function isSuccess(status: number): boolean {
  return status === 200 || status === 201
}

function begin(
  line: Line,
  question: Question,
  until: AbortSignal,
  options: AskOptions & { readonly duplex?: boolean },
): { stream: ClientHttp2Stream; wait: Wait } {
  if (until.aborted) throw abortedError(until, question.doing)
  const body = options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body))
  if (body && body.length > LIMITS.jsonBytes) {
    throw new CraikError(
      'too_large',
      `cannot ${question.doing}: the request is over ${LIMITS.jsonBytes} bytes`,
    )
  }
  const stream = line.open(question, body === undefined && !options.duplex)
  if (body) stream.end(body)
  return { stream, wait: new Wait(line, stream, question, until, options) }
}

/** The time in which an answer has to come: it fails at the deadline, when the caller leaves, or with the stream. */
export class Wait {
  /** The first headers that are an answer. */
  readonly answered: Promise<Answered>
  /** Never resolves. */
  readonly failed: Promise<never>
  readonly #deadlineMs: number
  readonly #late: () => void
  readonly #release: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(
    line: Line,
    stream: ClientHttp2Stream,
    { doing }: Question,
    until: AbortSignal,
    options: { readonly deadlineMs?: number | undefined; readonly deadline?: false } = {},
  ) {
    this.#deadlineMs = options.deadlineMs ?? line.patience.answerMs
    const { promise, reject } = Promise.withResolvers<never>()
    this.failed = promise
    const left = () => reject(abortedError(until, doing))
    const closed = () => reject(line.brokeOff(doing))
    this.#late = () => reject(tooLate(doing, this.#deadlineMs))
    until.addEventListener('abort', left, { once: true })
    stream.once('close', closed)
    this.#release = () => {
      until.removeEventListener('abort', left)
      stream.off('close', closed)
    }
    if (options.deadline !== false) this.startDeadline()
    const headers = new Promise<Answered>((resolve) => {
      stream.once('response', (headers) => resolve({ stream, headers, status: headers[':status'] ?? 0 }))
    })
    this.answered = Promise.race([headers, this.failed])
    // They may fail when nobody waits for them any more.
    this.failed.catch(() => {})
    this.answered.catch(() => {})
  }

  startDeadline(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#late, this.#deadlineMs)
  }

  over(): void {
    clearTimeout(this.#timer)
    this.#release()
  }
}

function tooLate(doing: string, waitedMs: number): CraikError {
  return new CraikError(
    'boundary_failed',
    `cannot ${doing}: the sandbox did not answer within ${waitedMs} ms`,
  )
}

/** Reads a body to its end, and no more of it than it may have. */
export async function collect(
  stream: ClientHttp2Stream,
  maxBytes: number,
  line: Line,
  question: Question,
  wait: Wait,
): Promise<Buffer> {
  const whole = new Promise<Buffer>((resolve, reject) => {
    // One buffer that grows with what has come: a chunk of one byte each would cost a hundred times its size.
    let buffer = Buffer.allocUnsafe(4096)
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      if (bytes + chunk.length > maxBytes) {
        reject(lied(question.doing, `more than ${maxBytes} bytes`))
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
      if (stream.rstCode) reject(line.brokeOff(question.doing))
      else resolve(buffer.subarray(0, bytes))
    })
  })
  return Promise.race([whole, wait.failed])
}

/** Why the caller's wait is over: its own reason when that is ours, otherwise that it left. */
export function abortedError(until: AbortSignal, doing: string): CraikError {
  if (until.reason instanceof CraikError) return until.reason
  return new CraikError('interrupted', `interrupted before Craik could ${doing}`, {
    cause: until.reason,
  })
}
