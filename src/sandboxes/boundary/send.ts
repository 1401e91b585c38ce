/** Sends a body of any length to a sidecar, at its speed, and waits for what it makes of it. */
import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { parseSidecarAnswer, sidecarRefusal } from './answers.ts'
import { abortedError, collect, isSuccess, Wait } from './ask.ts'
import { cut, type Line, type Question } from './connection.ts'

interface SendOptions {
  /** Fails when the sidecar takes nothing for so long although there is more. */
  readonly silenceMs?: number
}

/** The body is read to its end, or destroyed. The answer may come before its end only when it is an error. */
export async function send<T>(
  line: Line,
  question: Question,
  schema: z.ZodType<T>,
  body: Readable,
  until: AbortSignal,
  options: SendOptions = {},
): Promise<T> {
  // Its errors are looked at below; once it is destroyed it may still say so.
  body.on('error', () => {})
  let stream: ClientHttp2Stream | undefined
  let wait: Wait | undefined
  try {
    if (until.aborted) throw abortedError(until, question.doing)
    stream = line.open(question, false)
    // Without a deadline as long as the body goes: the reader inside may take its time.
    wait = new Wait(line, stream, question, until, { deadline: false })
    const pump = new Pump(body, stream, question, options.silenceMs)
    const first = await Promise.race([wait.answered, pump.sent, wait.failed])
    if (first === undefined || isSuccess(first.status)) await Promise.race([pump.sent, wait.failed])
    wait.startDeadline()
    const { status } = await wait.answered
    const answer = await collect(stream, LIMITS.jsonBytes, line, question, wait)
    if (!isSuccess(status)) throw sidecarRefusal(answer, status, question.doing)
    return parseSidecarAnswer(schema, answer, question.doing)
  } catch (error) {
    if (stream) cut(stream)
    throw error
  } finally {
    wait?.over()
    if (!body.readableEnded) body.destroy()
  }
}

class Pump {
  /** Settles when the whole body has left. */
  readonly sent: Promise<undefined>

  constructor(body: Readable, stream: ClientHttp2Stream, question: Question, silenceMs: number | undefined) {
    this.sent = new Promise((resolve, reject) => {
      let stalled: NodeJS.Timeout | undefined
      const watch = () => {
        // What is closed takes nothing any more, and says so by that.
        if (silenceMs === undefined || stream.closed) return
        // The last piece may find the stream full and be the end at once.
        clearTimeout(stalled)
        stalled = setTimeout(() => reject(takesNothing(question, silenceMs)), silenceMs)
      }
      const broke = (error?: Error) => {
        clearTimeout(stalled)
        reject(inputBroke(question, error))
      }
      body.on('data', (chunk: Buffer) => {
        if (stream.destroyed || stream.write(chunk)) return
        body.pause()
        watch()
      })
      stream.on('drain', () => {
        clearTimeout(stalled)
        body.resume()
      })
      body.once('end', () => {
        watch()
        stream.end()
      })
      body.once('error', broke)
      body.once('close', () => body.readableEnded || broke())
      if (body.destroyed && !body.readableEnded) broke(body.errored ?? undefined)
      stream.once('finish', () => {
        clearTimeout(stalled)
        resolve(undefined)
      })
      stream.once('close', () => clearTimeout(stalled))
    })
    this.sent.catch(() => {})
  }
}

function takesNothing(question: Question, ms: number): CraikError {
  return new CraikError('boundary_failed', `cannot ${question.doing}: the sandbox read nothing for ${ms} ms`)
}

function inputBroke(question: Question, cause: Error | undefined): CraikError {
  if (cause instanceof CraikError) return cause
  return new CraikError('interrupted', `cannot ${question.doing}: the data to send ended early`, { cause })
}
