/** Prevents a stream from holding a few bytes in many pieces, each of which takes far more memory than its bytes. */
import type { Readable } from 'node:stream'

/** The number of waiting pieces above which their size matters. */
const MAX_UNCHECKED_PIECES = 4096

/**
 * A window limits the bytes that wait for a slow reader, not the memory that they take. Sent one by one, 256 KB of them
 * take 30 MB. Each may also keep the whole buffer alive that was read from the socket. So this function copies a small
 * piece out of its buffer, and calls `giveUp` when the waiting pieces are smaller than `leastBytes` on average. It
 * calls `onBytes` for every piece.
 */
export function guardPieces(
  stream: Readable,
  leastBytes: number,
  giveUp: () => void,
  onBytes?: (bytes: number) => void,
): void {
  const push = stream.push.bind(stream)
  let waiting = 0
  stream.push = (chunk: Buffer | null) => {
    if (chunk === null) return push(null)
    onBytes?.(chunk.length)
    waiting = stream.readableLength === 0 ? 1 : waiting + 1
    if (waiting > MAX_UNCHECKED_PIECES && stream.readableLength < waiting * leastBytes) {
      giveUp()
      return false
    }
    return push(chunk.length * 4 < chunk.buffer.byteLength ? copyOf(chunk) : chunk)
  }
}

/** Copies a piece into a buffer of its own, not into Node's shared pool. */
function copyOf(chunk: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(chunk.length)
  chunk.copy(copy)
  return copy
}
