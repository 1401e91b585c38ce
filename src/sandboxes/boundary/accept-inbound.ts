/** Connections from inside: keeps a few streams open that the sidecar joins to them, and hands on those it joined. */
import type { ClientHttp2Stream } from 'node:http2'
import { LIMITS } from '../../sidecar/protocol.ts'
import type { InboundHandler } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import { MAX_INBOUND, MAX_SURPLUS } from './boundary-timeouts.ts'
import { type BoundaryConnection, cut, type SidecarRequest } from './connection.ts'
import { JoinedStream } from './joined-stream.ts'

const QUESTION: SidecarRequest = { method: 'POST', path: '/accept', doing: 'accept a connection' }

/**
 * Until the line ends. A sidecar that closes what it was to hold is asked again, ever more slowly. What comes when as many are
 * open as may be waits for one of them to end, and is handed on as surplus when none does.
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
      hold()
  }

  function hold(): void {
    idle++
    const stream = connection.openWaiting(QUESTION)
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
      forget(stream)
      if (isJoined) joined--
      else {
        idle--
        later()
      }
      fill()
    })
  }

  function handOn(stream: ClientHttp2Stream, isSurplus: boolean): void {
    forget(stream)
    counter.add('connections')
    if (!isSurplus) {
      handled++
      stream.once('close', () => {
        handled--
        const next = [...surplus.keys()].find(({ destroyed, closed }) => !destroyed && !closed)
        if (next !== undefined && !connection.failure) handOn(next, false)
      })
    }
    handle(new JoinedStream(stream, connection, QUESTION.doing), isSurplus)
  }

  /** It waits no longer: it had its turn, or left. */
  function forget(stream: ClientHttp2Stream): void {
    clearTimeout(surplus.get(stream))
    surplus.delete(stream)
  }

  function later(): void {
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
