/** Finds out that the other end of a WebSocket is gone where its connection does not say so. */
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'

/** Whoever says nothing at all from one ping to the next is put out. */
export function keepAlive(socket: WebSocket, raw: Duplex, everyMs: number): void {
  let heard = true
  raw.prependListener('data', () => {
    heard = true
  })
  const timer = setInterval(() => {
    // What is not read here, or there, cannot be answered; both have deadlines of their own.
    if (socket.isPaused || raw.writableNeedDrain) return
    if (!heard) {
      socket.terminate()
      return
    }
    heard = false
    if (socket.readyState === socket.OPEN) socket.ping(() => {})
  }, everyMs).unref()
  socket.once('close', () => clearInterval(timer))
}

/** How long the other end may take to close as well: an option that the types of `ws` do not name. */
export function closesWithin(closeTimeout: number): object {
  return { closeTimeout }
}
