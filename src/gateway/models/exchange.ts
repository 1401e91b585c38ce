/** One admitted request to one provider and its answer, passed on as it comes. What goes wrong is a result here. */
import type { IncomingHttpHeaders } from 'node:http'
import { logInAgain } from '../../accounts/log-in-again.ts'
import { Upstream } from '../../providers/adapters/counterpart.ts'
import { EVENT_CHARS_MAX } from '../../providers/adapters/limits.ts'
import { type KnownNames, knownNames } from '../../providers/adapters/refusal.ts'
import type { Ended } from '../../providers/dispatch/exchange.ts'
import { MESSAGE_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX } from '../limits.ts'
import type { BufferedBytes } from './body.ts'
import type { Client } from './client.ts'
import type { AnswerReader } from './dialects/answer-reader.ts'
import { dataOf, EventBlocks, isEventStream, PieceList } from './event-blocks.ts'
import {
  brokenEnd,
  brokenOffEnd,
  type FailedEnd,
  failedEnd,
  garbageEnd,
  isOfCredential,
  noCredentialEnd,
  refusedEnd,
  slowClientEnd,
  tooMuchEnd,
} from './failures.ts'
import { headersDown, headersUp } from './headers.ts'
import { parseAnswer, TooComplex } from './json-members.ts'
import { type CallCredential, isNoCredential, type Login } from './login.ts'
import {
  isTooFine,
  type UpstreamAnswer,
  UpstreamError,
  type UpstreamRequest,
  type Upstreams,
} from './upstream.ts'

export interface Sending {
  readonly upstreams: Upstreams
  readonly login: Login
  readonly request: Pick<UpstreamRequest, 'path' | 'method' | 'body'>
  readonly headers: IncomingHttpHeaders
  readonly client: Client
  readonly held: BufferedBytes
  /** Undefined: any JSON is an answer. */
  readonly reader: AnswerReader | undefined
  /** Cancelled by the client, by the gateway that closes, or when the call has lasted too long. */
  readonly until: AbortSignal
  /** Called once, before the client is sent what makes its answer whole. */
  readonly onEnd: (ended: Ended) => void
}

/** A refusal in the provider's own words; of one that is about the credential, only what it is called. */
export type UpstreamResponse = { readonly status: number } & (
  | { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }
  | { readonly names: KnownNames }
)

export interface Exchanged {
  readonly ended: Ended
  readonly said?: UpstreamResponse
}

const NO_MEMORY = 'this sandbox has too much data in open responses; wait for others to end'

/** Why a call is given up that nobody cancelled. */
export const TOO_LONG = Symbol('too long')

export async function exchange(sending: Sending): Promise<Exchanged> {
  return new Passing(sending).run()
}

class Passing {
  readonly #sending: Sending
  #held: CallCredential | undefined
  /** Each that the call was made with: an answer may repeat the one before. */
  readonly #secrets = new Set<string>()
  #sent = false
  #answeredBytes = 0
  #events = 0
  #ended: Ended | undefined
  #counterpart: { readonly secrets: number; readonly from: Upstream } | undefined
  /** The event in which the provider said that something is wrong. */
  #problemBlock: Buffer | undefined

  constructor(sending: Sending) {
    this.#sending = sending
  }

  async run(): Promise<Exchanged> {
    let answer: UpstreamAnswer | undefined
    try {
      answer = await this.#ask()
      if (answer.status !== 200) return await this.#refused(answer)
      const type = String(answer.headers['content-type'] ?? '')
      if (isCompressed(answer))
        return this.#failed(this.#garbage('it sent a compressed response that Craik did not request'))
      if (/^text\/event-stream\s*(?:;|$)/i.test(type)) return await this.#stream(answer)
      if (/^application\/json\s*(?:;|$)/i.test(type)) return await this.#whole(answer)
      return this.#failed(this.#garbage('its response is neither events nor JSON'))
    } catch (error) {
      return this.#thrown(error, answer)
    } finally {
      answer?.abort()
    }
  }

  /** With a newer credential once more, when the first is not accepted. */
  async #ask(): Promise<UpstreamAnswer> {
    const { login, until } = this.#sending
    this.#hold(await login.credential(until))
    const answer = await this.#send()
    if (answer.status !== 401 || this.#held === undefined) return answer
    let newer: CallCredential | undefined
    try {
      newer = await login.renewed(this.#held, until)
    } catch (error) {
      answer.abort()
      throw error
    }
    if (newer === undefined) return answer
    answer.abort()
    this.#hold(newer)
    return this.#send()
  }

  #hold(held: CallCredential | undefined): void {
    this.#held = held
    if (held?.secret !== undefined) this.#secrets.add(held.secret)
  }

  async #send(): Promise<UpstreamAnswer> {
    const { upstreams, login, request, headers, until } = this.#sending
    const { baseUrl } = login
    const answer = await upstreams.ask(
      { ...request, account: login.ref ?? '', baseUrl, headers: headersUp(headers, this.#held) },
      until,
    )
    this.#sent = true
    return answer
  }

  async #refused(answer: UpstreamAnswer): Promise<Exchanged> {
    const gathered = await this.#gathered(answer, MESSAGE_BYTES_MAX).catch(() => undefined)
    const body = typeof gathered === 'string' ? undefined : gathered
    const from = this.#from()
    const end = this.#withLogin(refusedEnd(from, answer.status, answer.headers, body ?? Buffer.alloc(0)))
    const exchanged = this.#failed(end)
    const { status } = answer
    if (isOfCredential(end))
      return { ...exchanged, said: { status, names: knownNames(body?.toString('utf8') ?? '') } }
    // A redirect leads the client past the gateway, and in compressed bytes nothing can be masked.
    if (body === undefined || status < 400 || isCompressed(answer)) return exchanged
    const said = { status, headers: headersDown(answer.headers, from.mask), body: from.mask.bytes(body) }
    return { ...exchanged, said }
  }

  /** What is not accepted is this login: what mends it is its own program's to do, and not the secret store's. */
  #withLogin(end: FailedEnd): FailedEnd {
    const { account } = this.#sending.login
    if (account === undefined || end.failure.failure !== 'unauthorized') return end
    return { ...end, hint: logInAgain(account.id) }
  }

  async #whole(answer: UpstreamAnswer): Promise<Exchanged> {
    const { reader, client } = this.#sending
    const body = await this.#gathered(answer, WHOLE_ANSWER_BYTES_MAX)
    if (typeof body === 'string') return this.#failed(this.#tooMuch(body))
    this.#answeredBytes = body.length
    try {
      const value = parseAnswer(body)
      if (reader !== undefined && !reader.whole(value))
        return this.#failed(this.#garbage('its response is not in this dialect'))
    } catch (error) {
      return this.#failed(this.#unread(error, 'its response is not JSON'))
    }
    const ended = this.#answered()
    const { mask } = this.#from()
    client.answer(200, headersDown(answer.headers, mask), await mask.inTurns(body))
    return { ended }
  }

  async #stream(answer: UpstreamAnswer): Promise<Exchanged> {
    const { client, reader, held } = this.#sending
    const blocks = new EventBlocks(EVENT_CHARS_MAX)
    const { mask } = this.#from()
    for (;;) {
      const piece = await answer.next()
      if (piece === undefined) break
      const openBytes = blocks.openBytes
      const whole = feed(blocks, piece)
      if (whole === undefined)
        return this.#failed(this.#tooMuch('it sent an event that is too long, or has too many lines'))
      if (!held.take(blocks.openBytes - openBytes)) return this.#failed(this.#tooMuch(NO_MEMORY))
      if (whole.length === 0) continue
      const fault = this.#read(whole)
      if (fault !== undefined) return this.#failed(fault)
      if (reader?.complete === true) this.#answered()
      const isBroken = reader?.problem !== undefined && this.#ended === undefined
      const broken = isBroken ? brokenOffEnd(this.#from(), reader.problem) : undefined
      const isOurs = broken !== undefined && isOfCredential(broken)
      const passed = isOurs ? whole.slice(0, whole.indexOf(this.#problemBlock!)) : whole
      if (passed.length > 0) {
        if (!client.hasBegun) client.begin(200, headersDown(answer.headers, mask))
        // No encoding of a credential goes beyond the end of an event: each is searched as a whole, and passed on at once.
        await client.send(await mask.inTurns(passed.length === 1 ? passed[0]! : Buffer.concat(passed)))
      }
      if (broken !== undefined) {
        const exchanged = this.#failed(broken)
        // The provider's own words were the last event. Otherwise the caller reports the failure.
        if (!isOurs) client.end()
        return exchanged
      }
    }
    reader?.end()
    if (this.#ended === undefined && (reader?.complete !== true || blocks.openBytes > 0))
      return this.#failed(
        client.isSlow
          ? slowClientEnd(this.#from(), 200)
          : failedEnd(this.#from(), 'broken_stream', 'its response ended before it was complete', true, 200),
      )
    const ended = this.#answered()
    client.end()
    return { ended }
  }

  /** What is wrong with these events, before any of them is passed on. */
  #read(blocks: readonly Buffer[]): FailedEnd | undefined {
    const { reader } = this.#sending
    for (const block of blocks) {
      this.#answeredBytes += block.length
      if (isTooFine(++this.#events, this.#answeredBytes))
        return this.#garbage('it sent too many small events')
      const data = dataOf(block)
      if (data === undefined) {
        if (!isEventStream(block)) return this.#garbage('it sent a line that is not part of an event stream')
        continue
      }
      if (reader === undefined || reader.complete) continue
      try {
        reader.event(data)
      } catch (error) {
        return this.#unread(error, 'it sent an event that is not in this dialect')
      }
      if (reader.problem !== undefined) this.#problemBlock ??= block
    }
    return undefined
  }

  #thrown(error: unknown, answer: UpstreamAnswer | undefined): Exchanged {
    // What is whole has been answered, whatever becomes of the connection.
    if (this.#ended !== undefined) {
      this.#sending.client.end()
      return { ended: this.#ended }
    }
    const { until, client } = this.#sending
    const isDelayed = client.isSlow && (until.reason === TOO_LONG || error instanceof UpstreamError)
    if (isDelayed) return this.#failed(slowClientEnd(this.#from(), answer?.status))
    const sent = this.#sent || (error instanceof UpstreamError && error.sent)
    if (until.aborted) {
      const late = until.reason === TOO_LONG
      const kind = late ? 'timeout' : 'cancelled'
      const what = late ? 'its response did not end in time' : 'the call was cancelled'
      return this.#failed(failedEnd(this.#from(), kind, what, sent, answer?.status))
    }
    if (error instanceof UpstreamError) return this.#failed(brokenEnd(this.#from(), error, answer?.status))
    if (isNoCredential(error)) return this.#failed(noCredentialEnd(this.#from(), error, sent))
    return { ended: this.#close({ kind: 'thrown', error }) }
  }

  #answered(): Ended {
    return this.#ended ?? this.#close({ kind: 'answered' })
  }

  #failed(end: FailedEnd): Exchanged {
    return { ended: this.#ended ?? this.#close(end) }
  }

  #close(end: Ended['end']): Ended {
    const { reader, request } = this.#sending
    const wasSent = end.kind === 'failed' ? end.failure.sent : this.#sent
    const usage = end.kind === 'answered' ? reader?.usage : reader?.spentSoFar()
    const ended: Ended = {
      end,
      usage,
      sentBytes: wasSent ? (request.body?.length ?? 0) : 0,
      receivedBytes: reader?.writtenBytes || (end.kind === 'answered' ? this.#answeredBytes : 0),
    }
    this.#ended = ended
    this.#sending.onEnd(ended)
    return ended
  }

  /** Or why it is not: there is more than that, or more than the caller may have in memory. */
  async #gathered(answer: UpstreamAnswer, bytesMax: number): Promise<Buffer | string> {
    const pieces = new PieceList()
    for (;;) {
      const piece = await answer.next()
      if (piece === undefined) return pieces.join()
      pieces.add(piece)
      if (pieces.bytes > bytesMax) return 'its response is too long'
      if (!this.#sending.held.take(piece.length)) return NO_MEMORY
    }
  }

  #unread(error: unknown, what: string): FailedEnd {
    return error instanceof TooComplex ? this.#tooMuch('its response is too complex') : this.#garbage(what)
  }

  #tooMuch(what: string): FailedEnd {
    return tooMuchEnd(this.#from(), what)
  }

  #garbage(what: string): FailedEnd {
    return garbageEnd(this.#from(), what)
  }

  #from(): Upstream {
    const secrets = this.#secrets.size
    if (this.#counterpart?.secrets !== secrets) {
      const mask = this.#sending.upstreams.maskOf([...this.#secrets])
      this.#counterpart = { secrets, from: new Upstream(this.#sending.login.baseUrl, mask) }
    }
    return this.#counterpart.from
  }
}

function isCompressed({ headers }: UpstreamAnswer): boolean {
  return (headers['content-encoding'] ?? 'identity') !== 'identity'
}

function feed(blocks: EventBlocks, piece: Buffer): Buffer[] | undefined {
  try {
    return blocks.feed(piece)
  } catch {
    return undefined
  }
}
