/** Reads a request's body: bounded in bytes and in time, and counted against what its caller may have in memory. */

import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gunzip, zstdDecompress } from 'node:zlib'
import type { GatewayLimits } from '../limits.ts'

export type BodyFault = 'too_large' | 'too_slow' | 'no_room' | 'coding' | 'not_utf8' | 'gone'

/** What the requests of one caller have in memory. */
export interface Room {
  heldBytes: number
}

const DECODERS: Readonly<
  Record<string, (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>
> = {
  gzip: promisify(gunzip),
  zstd: promisify(zstdDecompress),
}

/** The bytes after decompression. What was counted in the room is given back by `release`, whatever came of it. */
export async function readBody(
  request: IncomingMessage,
  room: Room,
  limits: GatewayLimits,
): Promise<{ readonly body: Buffer | BodyFault; readonly release: () => void }> {
  let counted = 0
  const take = (bytes: number): boolean => {
    counted += bytes
    room.heldBytes += bytes
    return room.heldBytes <= limits.heldBytes
  }
  const release = () => {
    room.heldBytes -= counted
    counted = 0
  }
  const coded = await collect(request, take, limits)
  if (typeof coded === 'string') return { body: coded, release }
  const coding = request.headers['content-encoding'] ?? 'identity'
  const body = coding === 'identity' ? coded : await decoded(coded, coding, take, limits)
  if (typeof body === 'string') return { body, release }
  return { body: isUtf8(body) ? body : 'not_utf8', release }
}

function collect(
  request: IncomingMessage,
  take: (bytes: number) => boolean,
  limits: GatewayLimits,
): Promise<Buffer | BodyFault> {
  const { promise, resolve } = Promise.withResolvers<Buffer | BodyFault>()
  if (Number(request.headers['content-length'] ?? 0) > limits.bodyBytes) return Promise.resolve('too_large')
  const pieces: Buffer[] = []
  let bytes = 0
  const timer = setTimeout(() => done('too_slow'), limits.bodyMs)
  const done = (result: Buffer | BodyFault) => {
    clearTimeout(timer)
    request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
    request.on('error', () => {})
    resolve(result)
  }
  const onData = (piece: Buffer) => {
    bytes += piece.length
    pieces.push(piece)
    if (bytes > limits.bodyBytes) done('too_large')
    else if (!take(piece.length)) done('no_room')
  }
  const onEnd = () => done(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))
  const onGone = () => done('gone')
  request.on('data', onData).once('end', onEnd).once('close', onGone).once('error', onGone)
  return promise
}

async function decoded(
  body: Buffer,
  coding: string,
  take: (bytes: number) => boolean,
  limits: GatewayLimits,
): Promise<Buffer | BodyFault> {
  const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined
  if (decoder === undefined) return 'coding'
  try {
    const plain = await decoder(body, { maxOutputLength: limits.bodyBytes })
    return take(plain.length) ? plain : 'no_room'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'too_large' : 'coding'
  }
}
