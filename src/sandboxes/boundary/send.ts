/** Sends a body of any length to a sidecar, at its speed, and waits for what it makes of it. */
import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { abortError, collect, isSuccess, Wait } from './sidecar-request.ts'
import { parseSidecarAnswer, sidecarRefusal } from './sidecar-responses.ts'

interface SendOptions {
  /** Fails when the sidecar takes nothing for so long although there is more. */
  readonly silenceMs?: number
}

/** The body is read to its end, or destroyed. The answer may come before its end only when it is an error. */
export async function send<T>(
  connection: BoundaryConnection,
  request: SidecarRequest,
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
    if (until.aborted) throw abortError(until, request.doing)
    stream = connection.open(request, false)
    // Without a deadline as long as the body goes: the reader inside may take its time.
    wait = new Wait(connection, stream, request, until, { deadline: false })
    const pump = new Pump(body, stream, request, options.silenceMs)
    const first = await Promise.race([wait.answered, pump.sent, wait.failed])
    if (first === undefined || isSuccess(first.status)) await Promise.race([pump.sent, wait.failed])
    wait.startDeadline()
    const { status } = await wait.answered
    const answer = await collect(stream, LIMITS.jsonBytes, connection, request, wait)
    if (!isSuccess(status)) throw sidecarRefusal(answer, status, request.doing)
    return parseSidecarAnswer(schema, answer, request.doing)
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

  constructor(
    body: Readable,
    stream: ClientHttp2Stream,
    request: SidecarRequest,
    silenceMs: number | undefined,
  ) {
    this.sent = new Promise((resolve, reject) => {
      let stalled: NodeJS.Timeout | undefined
      const watch = () => {
        // What is closed takes nothing any more, and says so by that.
        if (silenceMs === undefined || stream.closed) return
        // The last piece may find the stream full and be the end at once.
        clearTimeout(stalled)
        stalled = setTimeout(() => reject(takesNothing(request, silenceMs)), silenceMs)
      }
      const broke = (error?: Error) => {
        clearTimeout(stalled)
        reject(inputBroke(request, error))
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

function takesNothing(request: SidecarRequest, ms: number): CraikError {
  return new CraikError('boundary_failed', `cannot ${request.doing}: the sandbox read nothing for ${ms} ms`)
}

function inputBroke(request: SidecarRequest, cause: Error | undefined): CraikError {
  if (cause instanceof CraikError) return cause
  return new CraikError('interrupted', `cannot ${request.doing}: the data to send ended early`, { cause })
}
