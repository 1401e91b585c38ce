/** Answers that end a connection: on a stream that no HTTP server writes to any longer, or to a request that is not whole. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayLimits } from './limits.ts'

/** What a piece counts at least. */
const PIECE_BYTES = 256
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

/**
 * Answers a request that may not be whole, and ends its connection. What its client still sends is read and discarded within
 * bounds: closing a connection with unread bytes could cost the client the answer.
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
  // A client that waits for 100 Continue sends no body. Nobody has begun to read from it.
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
    // A short piece costs as much time as a longer one.
    bytes += Math.max(piece.length, PIECE_BYTES)
    if (bytes > discardBytes) response.destroy()
  })
  request.resume()
}

/** Whether the client waits for a word before it sends its body. */
export function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
}
