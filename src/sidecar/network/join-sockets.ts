/** Joins two byte streams so that each end sees what the other does: bytes, their end, and a break. */
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'

/** Calls `onClose` once, when both are closed. The socket must allow half-open connections. */
export function joinSocket(socket: Socket, stream: ServerHttp2Stream, onClose: () => void): void {
  let open = 2
  const onSocketClose = () => {
    open--
    if (open === 0) onClose()
  }
  const breakSocket = () => {
    if (socket.destroyed) return
    // A reset reports the break to the other end. After an orderly end there is nothing left to reset.
    if (socket.writableEnded) socket.destroy()
    else breakOff(socket)
  }
  const breakStream = () => {
    if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL)
  }
  socket.on('error', breakStream)
  stream.on('error', breakSocket)
  stream.on('aborted', breakSocket)
  socket.once('close', () => {
    // Both halves ended in an orderly way, so what is still on its way to the host may arrive.
    if (!(socket.readableEnded && socket.writableFinished)) breakStream()
    onSocketClose()
  })
  stream.once('close', () => {
    if (stream.rstCode === constants.NGHTTP2_NO_ERROR && socket.readableEnded) socket.destroySoon()
    else breakSocket()
    onSocketClose()
  })
  socket.setNoDelay(true)
  socket.pipe(stream)
  // A cancelled stream ends, too, but that is not the end of the host's data.
  stream.pipe(socket, { end: false })
  stream.once('end', () => {
    if (stream.aborted || stream.rstCode !== constants.NGHTTP2_NO_ERROR) breakSocket()
    else socket.end()
  })
}

/** Shows the other end that this is not an orderly end, if its kind of socket can do so. */
export function breakOff(socket: Socket): void {
  // Only TCP has a reset.
  if (socket.remoteFamily === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
