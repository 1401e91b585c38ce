/** An answer on a stream that no HTTP server writes to any longer, and the end of it. */
import type { Duplex } from 'node:stream'

/** How long whoever was refused may take to read that and leave. */
const LEAVE_MS = 5_000

export function answerRaw(socket: Duplex, status: string, why: string): void {
  if (socket.destroyed || !socket.writable) {
    socket.destroy()
    return
  }
  const body = JSON.stringify({ error: { message: `craik: ${why}`, type: 'craik' } })
  socket.on('error', () => {})
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `Connection: close\r\n\r\n${body}`,
  )
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), LEAVE_MS).unref()
  socket.once('close', () => clearTimeout(timer))
  socket.once('finish', () => socket.readableEnded && socket.destroy())
}
