/** Answers that are streams: begun at once, held up by a slow reader, and broken off when they fail. */

import { type Duplex, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CraikError } from '../errors.ts'
import { BYTES_TYPE, LINES_TYPE } from './api/api-constants.ts'

/** Resolves when the stream is through or broken; a broken one breaks the connection, so nobody takes it for whole. */
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

/** Joins two streams both ways. An end on one side is passed on; an error on either ends both. */
export function joinStreams(one: Duplex, other: Duplex): void {
  breaksWith(one, other)
  breaksWith(other, one)
  one.pipe(other)
  other.pipe(one)
}

/** After an orderly end there may still be something to send: only a break ends the other at once. */
function breaksWith(left: Duplex, closing: Duplex): void {
  const end = () => left.destroy()
  closing.on('error', end)
  closing.on('close', () => {
    if (!closing.readableEnded || !closing.writableFinished) end()
  })
}

/** For routes whose body is a stream of bytes, which nothing may read before them. */
export async function onlyBytes(request: FastifyRequest): Promise<void> {
  if (request.headers['content-type'] === BYTES_TYPE) return
  throw new CraikError('usage', `the request body must be bytes with content type ${BYTES_TYPE}`)
}
