/** Joins two byte streams so that each end sees what the other does: bytes, the end of them, and a break. */
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'

/** Calls `onClose` once, when both are gone. The socket must allow a half that is closed. */
export function joinSocket(socket: Socket, stream: ServerHttp2Stream, onClose: () => void): void {
  let open = 2
  const onSocketClose = () => {
    open--
    if (open === 0) onClose()
  }
  const breakSocket = () => {
    if (socket.destroyed) return
    // A reset is what tells the other end; after an orderly end there is nothing left to reset.
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
    // Both halves ended in good order: what is still on its way to the host is let through.
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
  // A stream that is cancelled ends too, but that is no end of what the host had to say.
  stream.pipe(socket, { end: false })
  stream.once('end', () => {
    if (stream.aborted || stream.rstCode !== constants.NGHTTP2_NO_ERROR) breakSocket()
    else socket.end()
  })
}

/** So that the other end sees that it was no orderly end, as far as its kind of socket can tell. */
export function breakOff(socket: Socket): void {
  // Only TCP knows a reset.
  if (socket.remoteFamily === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
