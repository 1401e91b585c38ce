/** Returns the bytes of a file, or a range of them, as long as it is still the file that the client began with. */
import type { BigIntStats } from 'node:fs'
import { constants, type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { queryNumber, type RouteCall, SidecarError } from '../router.ts'
import { answerFor, pathOfQuery } from './request-path.ts'

const CHUNK_BYTES = 256 * 1024

export async function readContent(call: RouteCall, workspace: string): Promise<void> {
  const path = pathOfQuery(call.query, workspace)
  const offset = queryNumber(call.query, 'offset', 0, Number.MAX_SAFE_INTEGER)
  const length = queryNumber(call.query, 'length', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
  const handle = await openRegular(path)
  try {
    const stat = await handle.stat({ bigint: true })
    const etag = etagOf(stat)
    const wanted = call.query.get('etag')
    if (wanted !== null && wanted !== etag)
      throw new SidecarError('changed', `${path}: was changed or replaced`)
    const size = Number(stat.size)
    if (!Number.isSafeInteger(size)) throw new SidecarError('too_large', `${path}: is too large to read`)
    if (offset > size) throw new SidecarError('usage', `${path}: has only ${size} bytes`)
    const bytes = Math.min(length, size - offset)
    const headers = { etag, 'content-length': bytes, 'craik-size': size }
    if (!call.respond(200, headers)) return
    // The signal ends the pipeline when the client disconnects, so the file is closed then, too.
    await pipeline(contentOf(handle, offset, bytes), call.stream, { signal: call.signal })
  } catch (error) {
    // After the headers, only the stream can report a failure, and the server closes it.
    if (call.signal.aborted) return
    throw answerFor(error, path)
  } finally {
    await handle.close()
  }
}

/** Uses O_NONBLOCK, because opening a FIFO would otherwise wait forever for its other end. */
async function openRegular(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY).catch(
    (error: unknown) => {
      throw answerFor(error, path)
    },
  )
  const stat = await handle.stat()
  if (stat.isFile()) return handle
  await handle.close()
  throw new SidecarError('usage', `${path}: is ${stat.isDirectory() ? 'a folder' : 'not a regular file'}`)
}

/** Reads the next chunk while one is being sent. */
async function* contentOf(handle: FileHandle, offset: number, bytes: number): AsyncGenerator<Buffer> {
  const readAt = (done: number) => {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes - done))
    const reading = handle.read(buffer, 0, buffer.length, offset + done)
    // The error reaches the next `await`. After the client has disconnected, none exists.
    reading.catch(() => {})
    return reading
  }
  if (bytes === 0) return
  let reading = readAt(0)
  for (let done = 0; done < bytes; ) {
    const { bytesRead, buffer } = await reading
    if (bytesRead === 0) throw new SidecarError('changed', 'the file became shorter during the read')
    done += bytesRead
    if (done < bytes) reading = readAt(done)
    yield buffer.subarray(0, bytesRead)
  }
}

/** Returns a value that differs for another file or other content. */
function etagOf(stat: BigIntStats): string {
  return [stat.dev, stat.ino, stat.mtimeNs, stat.size].map((part) => part.toString(36)).join('-')
}
