/** Detects that the other end of a WebSocket is gone, even if its connection stays open. */
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'

/** Disconnects an end that sends nothing from one ping to the next. */
export function keepAlive(socket: WebSocket, raw: Duplex, everyMs: number): void {
  let heard = true
  raw.prependListener('data', () => {
    heard = true
  })
  const timer = setInterval(() => {
    // While either direction is blocked, no pong can arrive. Both directions have their own deadlines.
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

/** Returns the option for the close handshake's timeout, which the types of `ws` omit. */
export function closesWithin(closeTimeout: number): object {
  return { closeTimeout }
}
