/**
 * Sends one admitted request to one provider and forwards the response as it arrives. Failures are results, not
 * exceptions.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { logInAgain } from '../../accounts/log-in-again.ts'
import { Upstream } from '../../providers/adapters/counterpart.ts'
import { EVENT_CHARS_MAX } from '../../providers/adapters/limits.ts'
import { type KnownNames, knownNames } from '../../providers/adapters/refusal.ts'
import type { Ended } from '../../providers/dispatch/exchange.ts'
import { MESSAGE_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX } from '../gateway-limits.ts'
import type { BufferedBytes } from './body.ts'
import {
  describeBreakOff,
  describeBrokenEnd,
  describeFailedEnd,
  describeRefusedEnd,
  type FailedEnd,
  garbageEnd,
  isOfCredential,
  noCredentialEnd,
  slowClientEnd,
  tooMuchEnd,
} from './call-failures.ts'
import { type CallCredential, isNoCredential, type Login } from './choose-login.ts'
import type { Client } from './client-response.ts'
import type { AnswerReader } from './dialects/answer-reader.ts'
import { dataOf, EventBlocks, isEventStream, PieceList } from './event-blocks.ts'
import { parseAnswer, TooComplex } from './json-members.ts'
import { headersDown, headersUp } from './model-headers.ts'
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
  /** `undefined` accepts any JSON response. */
  readonly reader: AnswerReader | undefined
  /** Aborts when the client disconnects, when the gateway closes, or when the call has lasted too long. */
  readonly until: AbortSignal
  /** Called once, before the client gets the end of its response. */
  readonly onEnd: (ended: Ended) => void
}

/** A refusal in the provider's own words. For a refusal of the credential, only its error names are kept. */
export type UpstreamResponse = { readonly status: number } & (
  | { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer }
  | { readonly names: KnownNames }
)

export interface Exchanged {
  readonly ended: Ended
  readonly response?: UpstreamResponse
}

const NO_MEMORY = 'this sandbox has too much data in open responses; wait for others to end'

/** The abort reason of a call that exceeded its deadline. */
export const TOO_LONG = Symbol('too long')

export async function exchangeWithUpstream(sending: Sending): Promise<Exchanged> {
  return new Passing(sending).run()
}

class Passing {
  readonly #sending: Sending
  #held: CallCredential | undefined
  /** All credentials that the call used: a response may repeat an earlier one. */
  readonly #secrets = new Set<string>()
  #sent = false
  #answeredBytes = 0
  #events = 0
  #ended: Ended | undefined
  #upstream: { readonly secrets: number; readonly from: Upstream } | undefined
  /** The event in which the provider reported an error. */
  #problemBlock: Buffer | undefined

  constructor(sending: Sending) {
    this.#sending = sending
  }

  async run(): Promise<Exchanged> {
    let answer: UpstreamAnswer | undefined
    try {
      answer = await this.#ask()
      if (answer.status !== 200) return await this.#endRefused(answer)
      const type = String(answer.headers['content-type'] ?? '')
      if (isCompressed(answer))
        return this.#endFailed(this.#garbage('it sent a compressed response that Craik did not request'))
      if (/^text\/event-stream\s*(?:;|$)/i.test(type)) return await this.#stream(answer)
      if (/^application\/json\s*(?:;|$)/i.test(type)) return await this.#whole(answer)
      return this.#endFailed(this.#garbage('its response is neither events nor JSON'))
    } catch (error) {
      return this.#endThrown(error, answer)
    } finally {
      answer?.abort()
    }
  }

  /** Retries once with a newer credential when the first one is rejected. */
  async #ask(): Promise<UpstreamAnswer> {
    const { login, until } = this.#sending
    this.#hold(await login.credential(until))
    const answer = await this.#send()
    if (answer.status !== 401 || this.#held === undefined) return answer
    let newer: CallCredential | undefined
    try {
      newer = await login.renew(this.#held, until)
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

  async #endRefused(answer: UpstreamAnswer): Promise<Exchanged> {
    const gathered = await this.#collectBody(answer, MESSAGE_BYTES_MAX).catch(() => undefined)
    const body = typeof gathered === 'string' ? undefined : gathered
    const from = this.#from()
    const end = this.#withLogin(
      describeRefusedEnd(from, answer.status, answer.headers, body ?? Buffer.alloc(0)),
    )
    const exchanged = this.#endFailed(end)
    const { status } = answer
    if (isOfCredential(end))
      return { ...exchanged, response: { status, names: knownNames(body?.toString('utf8') ?? '') } }
    // A redirect would lead the client past the gateway, and compressed bytes cannot be masked.
    if (body === undefined || status < 400 || isCompressed(answer)) return exchanged
    const reply = { status, headers: headersDown(answer.headers, from.mask), body: from.mask.maskBytes(body) }
    return { ...exchanged, response: reply }
  }

  /** The login was rejected, so the hint names its own program's command instead of the secret store. */
  #withLogin(end: FailedEnd): FailedEnd {
    const { account } = this.#sending.login
    if (account === undefined || end.failure.failure !== 'unauthorized') return end
    return { ...end, hint: logInAgain(account.id) }
  }

  async #whole(answer: UpstreamAnswer): Promise<Exchanged> {
    const { reader, client } = this.#sending
    const body = await this.#collectBody(answer, WHOLE_ANSWER_BYTES_MAX)
    if (typeof body === 'string') return this.#endFailed(this.#tooMuch(body))
    this.#answeredBytes = body.length
    try {
      const value = parseAnswer(body)
      if (reader !== undefined && !reader.whole(value))
        return this.#endFailed(this.#garbage('its response is not in this dialect'))
    } catch (error) {
      return this.#endFailed(this.#unread(error, 'its response is not JSON'))
    }
    const ended = this.#endAnswered()
    const { mask } = this.#from()
    client.answer(200, headersDown(answer.headers, mask), await mask.maskInTurns(body))
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
        return this.#endFailed(this.#tooMuch('it sent an event that is too long, or has too many lines'))
      if (!held.take(blocks.openBytes - openBytes)) return this.#endFailed(this.#tooMuch(NO_MEMORY))
      if (whole.length === 0) continue
      const fault = this.#read(whole)
      if (fault !== undefined) return this.#endFailed(fault)
      if (reader?.complete === true) this.#endAnswered()
      const isBroken = reader?.problem !== undefined && this.#ended === undefined
      const broken = isBroken ? describeBreakOff(this.#from(), reader.problem) : undefined
      const isOurs = broken !== undefined && isOfCredential(broken)
      const passed = isOurs ? whole.slice(0, whole.indexOf(this.#problemBlock!)) : whole
      if (passed.length > 0) {
        if (!client.hasBegun) client.begin(200, headersDown(answer.headers, mask))
        // No encoding of a credential spans the end of an event, so each event is searched as a whole and forwarded at
        // once.
        await client.send(await mask.maskInTurns(passed.length === 1 ? passed[0]! : Buffer.concat(passed)))
      }
      if (broken !== undefined) {
        const exchanged = this.#endFailed(broken)
        // The provider's own error was the last event. Otherwise the caller reports the failure.
        if (!isOurs) client.end()
        return exchanged
      }
    }
    reader?.end()
    if (this.#ended === undefined && (reader?.complete !== true || blocks.openBytes > 0))
      return this.#endFailed(
        client.isSlow
          ? slowClientEnd(this.#from(), 200)
          : describeFailedEnd(
              this.#from(),
              'broken_stream',
              'its response ended before it was complete',
              true,
              200,
            ),
      )
    const ended = this.#endAnswered()
    client.end()
    return { ended }
  }

  /** Returns what is wrong with these events, before any of them is forwarded. */
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

  #endThrown(error: unknown, answer: UpstreamAnswer | undefined): Exchanged {
    // A complete response counts as answered, even if the connection breaks afterwards.
    if (this.#ended !== undefined) {
      this.#sending.client.end()
      return { ended: this.#ended }
    }
    const { until, client } = this.#sending
    const isDelayed = client.isSlow && (until.reason === TOO_LONG || error instanceof UpstreamError)
    if (isDelayed) return this.#endFailed(slowClientEnd(this.#from(), answer?.status))
    const sent = this.#sent || (error instanceof UpstreamError && error.sent)
    if (until.aborted) {
      const isLate = until.reason === TOO_LONG
      const kind = isLate ? 'timeout' : 'cancelled'
      const what = isLate ? 'its response did not end in time' : 'the call was cancelled'
      return this.#endFailed(describeFailedEnd(this.#from(), kind, what, sent, answer?.status))
    }
    if (error instanceof UpstreamError)
      return this.#endFailed(describeBrokenEnd(this.#from(), error, answer?.status))
    if (isNoCredential(error)) return this.#endFailed(noCredentialEnd(this.#from(), error, sent))
    return { ended: this.#close({ kind: 'thrown', error }) }
  }

  #endAnswered(): Ended {
    return this.#ended ?? this.#close({ kind: 'answered' })
  }

  #endFailed(end: FailedEnd): Exchanged {
    return { ended: this.#ended ?? this.#close(end) }
  }

  #close(end: Ended['end']): Ended {
    const { reader, request } = this.#sending
    const wasSent = end.kind === 'failed' ? end.failure.sent : this.#sent
    const usage = end.kind === 'answered' ? reader?.usage : reader?.readUsage()
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

  /** Returns the body, or why it was refused: it exceeds its limit or the caller's memory budget. */
  async #collectBody(answer: UpstreamAnswer, bytesMax: number): Promise<Buffer | string> {
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
    if (this.#upstream?.secrets !== secrets) {
      const mask = this.#sending.upstreams.maskOf([...this.#secrets])
      this.#upstream = { secrets, from: new Upstream(this.#sending.login.baseUrl, mask) }
    }
    return this.#upstream.from
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
