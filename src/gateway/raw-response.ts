/** Responses that end a connection: on a stream without an HTTP server, or to an incomplete request. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayLimits } from './gateway-limits.ts'

/** The minimum size that a chunk counts as. */
const PIECE_BYTES = 256
/** How long a refused client can take to read the response and disconnect. */
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

/**
 * Responds to a possibly incomplete request, and ends its connection. The rest of the request is read and discarded
 * within limits: closing a connection with unread bytes could destroy the response.
 */
export function answerUnread(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: string,
  { discardBytes, discardMs }: Pick<GatewayLimits, 'discardBytes' | 'discardMs'>,
): void {
  const length = Buffer.byteLength(body)
  response.writeHead(status, { ...headers, 'content-length': length, connection: 'close' })
  // A client that waits for 100 Continue sends no body, and nothing has started to read one.
  const isWaiting = expectsContinue(request) && request.readableFlowing === null
  if (request.complete || request.destroyed || isWaiting) {
    response.end(body)
    return
  }
  response.write(body)
  let bytes = 0
  const timer = setTimeout(() => response.destroy(), discardMs).unref()
  response.once('close', () => clearTimeout(timer))
  request.on('error', () => {}).once('end', () => response.end())
  request.on('data', (piece: Buffer) => {
    // A short chunk costs as much time as a longer one.
    bytes += Math.max(piece.length, PIECE_BYTES)
    if (bytes > discardBytes) response.destroy()
  })
  request.resume()
}

/** Returns whether the client waits for 100 Continue before it sends its body. */
export function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
}
