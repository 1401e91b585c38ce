/** Keeps a stream from holding a few bytes in a great many pieces, each of which costs far more than it holds. */
import type { Readable } from 'node:stream'

/** So many wait before it matters how small they are. */
const MANY = 4096

/**
 * A window bounds the bytes that wait for a slow reader, not the memory they take: sent one by one, 256 KB of them
 * take 30 MB, and each may pin the whole buffer of what was read from the socket with it. So a small piece is
 * copied out of its buffer, and a stream whose waiting pieces are smaller than `leastBytes` on average is given up. `onBytes` hears of every piece.
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
    if (waiting > MANY && stream.readableLength < waiting * leastBytes) {
      giveUp()
      return false
    }
    return push(chunk.length * 4 < chunk.buffer.byteLength ? copyOf(chunk) : chunk)
  }
}

/** In a buffer of its own, not one that is shared. */
function copyOf(chunk: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(chunk.length)
  chunk.copy(copy)
  return copy
}
