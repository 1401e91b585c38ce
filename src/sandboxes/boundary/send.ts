/** Sends a body of any length to a sidecar at the sidecar's speed, and waits for the response. */
import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { abortError, collectBody, isSuccess, Wait } from './sidecar-request.ts'
import { parseSidecarAnswer, sidecarRefusal } from './sidecar-responses.ts'

interface SendOptions {
  /** Sending fails when the sidecar reads nothing for this long although there is more to send. */
  readonly silenceMs?: number
}

/** Reads the body to its end, or destroys it. A response ends the transfer early only if it is an error. */
export async function sendToSidecar<T>(
  connection: BoundaryConnection,
  request: SidecarRequest,
  schema: z.ZodType<T>,
  body: Readable,
  until: AbortSignal,
  options: SendOptions = {},
): Promise<T> {
  // The code below handles errors of the body. A destroyed body may still emit one.
  body.on('error', () => {})
  let stream: ClientHttp2Stream | undefined
  let wait: Wait | undefined
  try {
    if (until.aborted) throw abortError(until, request.doing)
    stream = connection.open(request, false)
    // No deadline applies while the body is sent, because its reader in the sandbox may be slow.
    wait = new Wait(connection, stream, request, until, { deadline: false })
    const pump = new Pump(body, stream, request, options.silenceMs)
    const first = await Promise.race([wait.answered, pump.sent, wait.failed])
    if (first === undefined || isSuccess(first.status)) await Promise.race([pump.sent, wait.failed])
    wait.startDeadline()
    const { status } = await wait.answered
    const answer = await collectBody(stream, LIMITS.jsonBytes, connection, request, wait)
    if (!isSuccess(status)) throw sidecarRefusal(answer, status, request.doing)
    return parseSidecarAnswer(schema, answer, request.doing)
  } catch (error) {
    if (stream) cut(stream)
    throw error
  } finally {
    wait?.stop()
    if (!body.readableEnded) body.destroy()
  }
}

class Pump {
  /** Resolves when the whole body has been sent. */
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
        // A closed stream reads nothing more, and its `close` event reports that.
        if (silenceMs === undefined || stream.closed) return
        // The last piece may fill the stream and also be its end, so a timer may already run.
        clearTimeout(stalled)
        stalled = setTimeout(() => reject(stalledError(request, silenceMs)), silenceMs)
      }
      const broke = (error?: Error) => {
        clearTimeout(stalled)
        reject(inputEndedError(request, error))
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

function stalledError(request: SidecarRequest, ms: number): CraikError {
  return new CraikError('boundary_failed', `cannot ${request.doing}: the sandbox read nothing for ${ms} ms`)
}

function inputEndedError(request: SidecarRequest, cause: Error | undefined): CraikError {
  if (cause instanceof CraikError) return cause
  return new CraikError('interrupted', `cannot ${request.doing}: the data to send ended early`, { cause })
}
