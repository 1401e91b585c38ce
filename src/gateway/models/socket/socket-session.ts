/**
 * One WebSocket of a client, and the one to the provider behind it. Each message is a separate call: decided, held,
 * recorded and settled like a request. Messages are processed one after the other, as providers do.
 */
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { faultMessage } from '../../config-fault.ts'
import type { GatewayLimits } from '../../gateway-limits.ts'
import { KNOWN_ANSWERS_MAX, WAITING_MAX } from '../../gateway-limits.ts'
import type { MemoryBudget } from '../body.ts'
import { member } from '../dialects/answer-reader.ts'
import { errorMessage, failedMessage } from '../dialects/openai-responses.ts'
import { TOO_LONG } from '../exchange.ts'
import { parseAnswer } from '../json-members.ts'
import { type UnservedError, words } from '../unserved-error.ts'
import type { ClientSocket, Incoming, SocketFault } from './client-socket.ts'
import { type CallOutcome, callOverSocket, type ProviderLink, type SocketCall } from './socket-call.ts'
import type { UpstreamSocket } from './upstream-socket.ts'

/** The load that all connections of one caller share. */
export interface CallerLoad extends MemoryBudget {
  requests: number
}

export interface SocketSessionOptions extends Omit<SocketCall, 'link' | 'until' | 'client'> {
  readonly limits: GatewayLimits
  readonly load: CallerLoad
  readonly closing: AbortSignal
  readonly headers: IncomingHttpHeaders
  /** Records a refusal without a call. */
  readonly refused: (rule: string) => void
  readonly report: (error: unknown) => void
}

interface Ending {
  readonly code: number
  readonly reason: string
}

export class SocketSession {
  readonly #options: SocketSessionOptions
  readonly #link: ProviderLink
  readonly #waiting: Incoming[] = []
  #client: ClientSocket | undefined
  #idle: NodeJS.Timeout | undefined
  #going: Promise<void> | undefined

  constructor(options: SocketSessionOptions, upstream: UpstreamSocket) {
    this.#options = options
    this.#link = { upstream, known: new Map() }
    this.#rest()
  }

  /** Resolves when the session is over and all its calls are settled. */
  async serve(client: ClientSocket): Promise<void> {
    const { closing } = this.#options
    this.#client = client
    const over = AbortSignal.any([client.closeSignal, closing])
    this.#awaitNext()
    if (!over.aborted) await once(over, 'abort')
    clearTimeout(this.#idle)
    for (const { release } of this.#waiting.splice(0)) release()
    await this.#going
    this.#close({ code: 1001, reason: 'the gateway is closing' })
    this.#link.upstream?.end()
  }

  message(incoming: Incoming): void {
    clearTimeout(this.#idle)
    if (this.#waiting.length >= WAITING_MAX) {
      incoming.release()
      this.#sendError({
        status: 429,
        message: words('too many messages at once; wait for responses', ''),
        headers: {},
      })
      this.#close({ code: 1008, reason: 'too many messages at once' })
      return
    }
    this.#waiting.push(incoming)
    this.#going ??= this.#work().finally(() => {
      this.#going = undefined
      this.#awaitNext()
    })
  }

  fault(fault: SocketFault): void {
    const { bodyBytes, bodyMs } = this.#options.limits
    this.#options.refused(fault === 'broken' ? 'gateway.malformed' : `gateway.body.${fault}`)
    const faults: Readonly<Record<SocketFault, readonly [status: number, message: string, code: number]>> = {
      too_large: [413, `the message is larger than ${bodyBytes} bytes`, 1009],
      too_slow: [408, `the message was not complete within ${bodyMs} ms`, 1008],
      no_room: [429, 'this sandbox has too much data in open requests; wait for responses', 1013],
      busy: [429, 'Craik is reading other large requests of this sandbox', 1013],
      not_text: [400, 'the message is not text', 1003],
      not_utf8: [400, 'the message is not UTF-8', 1007],
      broken: [400, 'the WebSocket data is invalid', 1002],
    }
    const [status, message, code] = faults[fault]
    this.#sendError({ status, message: words(message, ''), headers: {} })
    this.#close({ code, reason: message })
  }

  async #work(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await this.#take(next)
      next.release()
      this.#rest()
    }
  }

  async #take({ body }: Incoming): Promise<void> {
    const { load, limits, closing, report } = this.#options
    const client = this.#client!
    if (client.closeSignal.aborted || closing.aborted) return
    if (load.requests >= limits.requests) {
      this.#sendError({
        status: 429,
        message: words('too many requests at once; wait for responses', ''),
        headers: {},
      })
      return
    }
    load.requests++
    const tooLong = new AbortController()
    const timer = setTimeout(() => tooLong.abort(TOO_LONG), limits.callMs)
    const until = AbortSignal.any([client.closeSignal, closing, tooLong.signal])
    try {
      const call: SocketCall = { ...this.#options, link: this.#link, client, until }
      this.#outcome(await callOverSocket(call, body))
    } catch (error) {
      // The end of the client or of the gateway aborts the call. That is not an error.
      const isEnding = client.closeSignal.aborted || closing.aborted
      if (!isEnding || (error as Error).name !== 'AbortError') report(error)
      this.#sendError({ status: 500, message: words(faultMessage(error), ''), headers: {} })
    } finally {
      clearTimeout(timer)
      load.requests--
    }
  }

  #outcome({ error, refused, hasBegun, response, isLost }: CallOutcome): void {
    const { known } = this.#link
    if (refused !== undefined) this.#options.refused(refused)
    if (response !== undefined) {
      known.delete(response.id)
      known.set(response.id, response.tokens)
      if (known.size > KNOWN_ANSWERS_MAX) known.delete(known.keys().next().value!)
    }
    if (error !== undefined) this.#sendError(error, hasBegun)
    // A client that connects again gets the error there, and continues over HTTP, with a fallback provider if there is
    // one.
    if (isLost === true) this.#close({ code: 1011, reason: 'the provider cannot be reached' })
  }

  /** Between calls, the provider can close or send remarks. It cannot begin a response. */
  #rest(): void {
    const { upstream } = this.#link
    if (upstream === undefined) return
    const drop = () => {
      upstream.end()
      this.#forget()
    }
    upstream.listener = {
      message: (data, isBinary) => {
        if (isBinary || !isRemark(data)) drop()
        else this.#client?.forward(upstream.mask.maskBytes(data), upstream)
      },
      onClosed: drop,
    }
    if (!upstream.isOpen) drop()
  }

  #forget(): void {
    this.#link.upstream = undefined
    this.#link.known.clear()
  }

  #awaitNext(): void {
    clearTimeout(this.#idle)
    if (this.#client === undefined || this.#client.closeSignal.aborted) return
    const end = () => this.#close({ code: 1001, reason: 'the connection was idle for too long' })
    this.#idle = setTimeout(end, this.#options.limits.socketIdleMs)
  }

  #sendError({ headers, ...error }: UnservedError & { readonly code?: string }, hasBegun = false): void {
    this.#client?.send(hasBegun ? failedMessage(error) : errorMessage(error, headers))
  }

  #close({ code, reason }: Ending): void {
    this.#client?.close(code, reason)
  }
}

const REMARK_CHARS_MAX = 64 * 1024

/** A remark, such as rate limits or timing. */
function isRemark(data: Buffer): boolean {
  if (data.length > REMARK_CHARS_MAX) return false
  try {
    const type = member(parseAnswer(data), 'type')
    return typeof type === 'string' && type !== 'error' && !type.startsWith('response.')
  } catch {
    return false
  }
}
