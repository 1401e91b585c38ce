/** Responses that are streams. They start at once, wait for a slow reader, and break the connection when they fail. */

import { type Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CraikError } from '../errors.ts'
import { BYTES_TYPE, LINES_TYPE } from './api/api-constants.ts'

/**
 * Resolves when the stream has ended or broken. A broken stream breaks the connection, so that no client takes the
 * response for complete.
 */
export async function sendStream(
  reply: FastifyReply,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: Readable,
): Promise<void> {
  reply.hijack()
  const response = reply.raw
  response.writeHead(status, headers)
  response.flushHeaders()
  try {
    await pipeline(body, response)
  } catch {
    body.destroy()
    response.destroy()
  }
}

export function sendLines(reply: FastifyReply, values: AsyncIterable<unknown>): Promise<void> {
  return sendStream(reply, 200, { 'content-type': LINES_TYPE }, Readable.from(lines(values)))
}

async function* lines(values: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const value of values) yield `${JSON.stringify(value)}\n`
}

/** Connects two streams in both directions. The end of one side is passed on, and an error on either side ends both. */
export function joinStreams(one: Duplex, other: Duplex): void {
  destroyOnBreak(one, other)
  destroyOnBreak(other, one)
  one.pipe(other)
  other.pipe(one)
}

/** After an orderly end there can still be data to send, so only a break ends the other stream at once. */
function destroyOnBreak(left: Duplex, closing: Duplex): void {
  const end = () => left.destroy()
  closing.on('error', end)
  closing.on('close', () => {
    if (!closing.readableEnded || !closing.writableFinished) end()
  })
}

/** Checks the content type for routes whose body is a stream of bytes, before anything reads the body. */
export async function requireBytes(request: FastifyRequest): Promise<void> {
  if (request.headers['content-type'] === BYTES_TYPE) return
  throw new CraikError('usage', `the request body must be bytes with content type ${BYTES_TYPE}`)
}
