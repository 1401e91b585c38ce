/**
 * Keeps a few accept streams open, to which the sidecar joins connections from the sandbox, and passes on those that it
 * joined.
 */
import type { ClientHttp2Stream } from 'node:http2'
import { LIMITS } from '../../sidecar/protocol.ts'
import type { InboundHandler } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import { MAX_INBOUND, MAX_SURPLUS } from './boundary-timeouts.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { JoinedStream } from './joined-stream.ts'

const ACCEPT_REQUEST: SidecarRequest = { method: 'POST', path: '/accept', doing: 'accept a connection' }

/**
 * Runs until the connection ends. If the sidecar closes a stream that it has not joined, the next one opens after a
 * growing delay. When the limit of open connections is reached, a new one waits for another to end. If none ends in
 * time, the new one is passed on as surplus.
 */
export function acceptInbound(
  connection: BoundaryConnection,
  counter: BoundaryCounter,
  handle: InboundHandler,
): void {
  const { reopenMs, reopenMaxMs, surplusMs } = connection.timeouts
  const surplus = new Map<ClientHttp2Stream, NodeJS.Timeout>()
  let idle = 0
  let joined = 0
  let handled = 0
  let delayMs = 0
  let waiting: NodeJS.Timeout | undefined

  function fill(): void {
    while (
      !connection.failure &&
      !waiting &&
      idle < LIMITS.acceptStreams &&
      idle + joined < MAX_INBOUND + MAX_SURPLUS
    )
      openAcceptStream()
  }

  function openAcceptStream(): void {
    idle++
    const stream = connection.openWaiting(ACCEPT_REQUEST)
    let isJoined = false
    stream.once('response', (headers) => {
      if (headers[':status'] !== 200) {
        cut(stream)
        return
      }
      isJoined = true
      delayMs = 0
      idle--
      joined++
      if (handled < MAX_INBOUND) handOn(stream, false)
      else surplus.set(stream, setTimeout(() => handOn(stream, true), surplusMs).unref())
      fill()
    })
    stream.once('close', () => {
      stopWaiting(stream)
      if (isJoined) joined--
      else {
        idle--
        scheduleReopen()
      }
      fill()
    })
  }

  function handOn(stream: ClientHttp2Stream, isSurplus: boolean): void {
    stopWaiting(stream)
    counter.add('connections')
    if (!isSurplus) {
      handled++
      stream.once('close', () => {
        handled--
        const next = [...surplus.keys()].find(({ destroyed, closed }) => !destroyed && !closed)
        if (next !== undefined && !connection.failure) handOn(next, false)
      })
    }
    handle(new JoinedStream(stream, connection, ACCEPT_REQUEST.doing), isSurplus)
  }

  /** Ends the wait of a connection that was passed on or has closed. */
  function stopWaiting(stream: ClientHttp2Stream): void {
    clearTimeout(surplus.get(stream))
    surplus.delete(stream)
  }

  function scheduleReopen(): void {
    if (waiting || connection.failure) return
    delayMs = Math.min(reopenMaxMs, Math.max(reopenMs, delayMs * 2))
    waiting = setTimeout(() => {
      waiting = undefined
      fill()
    }, delayMs)
    waiting.unref()
  }

  void connection.closed.then(() => clearTimeout(waiting))
  fill()
}
