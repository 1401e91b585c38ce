/** Connections from inside: keeps a few streams open that the sidecar joins to them, and hands on those it joined. */
import { LIMITS } from '../../sidecar/protocol.ts'
import type { InboundHandler } from './boundary.ts'
import type { BoundaryCounter } from './counts.ts'
import { JoinedStream } from './joined-stream.ts'
import { cut, type Line, type Question } from './line.ts'
import { MAX_INBOUND } from './patience.ts'

const QUESTION: Question = { method: 'POST', path: '/accept', doing: 'hand over a connection' }

/** Until the line ends. A sidecar that closes what it was to hold is asked again, ever more slowly. */
export function acceptInbound(line: Line, counter: BoundaryCounter, handle: InboundHandler): void {
  const { reopenMs, reopenMaxMs } = line.patience
  let idle = 0
  let joined = 0
  let delayMs = 0
  let waiting: NodeJS.Timeout | undefined

  function fill(): void {
    while (!line.failure && !waiting && idle < LIMITS.acceptStreams && idle + joined < MAX_INBOUND) hold()
  }

  function hold(): void {
    idle++
    const stream = line.openWaiting(QUESTION)
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
      counter.add('connections')
      handle(new JoinedStream(stream, line, QUESTION.doing))
      fill()
    })
    stream.once('close', () => {
      if (isJoined) joined--
      else {
        idle--
        later()
      }
      fill()
    })
  }

  function later(): void {
    if (waiting || line.failure) return
    delayMs = Math.min(reopenMaxMs, Math.max(reopenMs, delayMs * 2))
    waiting = setTimeout(() => {
      waiting = undefined
      fill()
    }, delayMs)
    waiting.unref()
  }

  void line.closed.then(() => clearTimeout(waiting))
  fill()
}
