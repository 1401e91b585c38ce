/** Gives out the bytes of a file, or a range of them, as long as it stays the file that the reader began with. */
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
    // The signal ends the pipeline when the reader goes away, so the file is closed then too.
    await pipeline(contentOf(handle, offset, bytes), call.stream, { signal: call.signal })
  } catch (error) {
    // After the headers only the stream can say that it failed, and the server closes it.
    if (call.signal.aborted) return
    throw answerFor(error, path)
  } finally {
    await handle.close()
  }
}

/** Non-blocking, because opening a FIFO would wait for its other end for ever. */
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

/** While one chunk is on its way, the next is read. */
async function* contentOf(handle: FileHandle, offset: number, bytes: number): AsyncGenerator<Buffer> {
  const readAt = (done: number) => {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes - done))
    const reading = handle.read(buffer, 0, buffer.length, offset + done)
    // Whoever waits for it hears of it; when the reader leaves, nobody does.
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

/** Another file, or another content, has another one. */
function etagOf(stat: BigIntStats): string {
  return [stat.dev, stat.ino, stat.mtimeNs, stat.size].map((part) => part.toString(36)).join('-')
}
