/** Forwards the response to one message, event by event. Failures are results, not exceptions. */

import { TURN_BYTES } from '../../../lib/credential-mask.ts'
import { Upstream } from '../../../providers/adapters/counterpart.ts'
import { readProblem } from '../../../providers/adapters/refusal.ts'
import type { Usage } from '../../../providers/conversation.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import { estimateOutputTokens } from '../../../providers/estimate.ts'
import type { GatewayLimits } from '../../gateway-limits.ts'
import {
  describeBreakOff,
  describeFailedEnd,
  describeRefusedEnd,
  type FailedEnd,
  garbageEnd,
  isOfCredential,
  namesOf,
  slowClientEnd,
  tooMuchEnd,
} from '../call-failures.ts'
import { statusOfFailure } from '../dialects/dialect.ts'
import { errorMessage, failedMessage, ResponsesReader } from '../dialects/openai-responses.ts'
import { TOO_LONG } from '../exchange.ts'
import { TooComplex } from '../json-members.ts'
import { words } from '../unserved-error.ts'
import type { ClientSocket } from './client-socket.ts'
import type { SocketListener, UpstreamSocket } from './upstream-socket.ts'

export interface Passing {
  readonly upstream: UpstreamSocket
  readonly baseUrl: string
  readonly client: ClientSocket
  readonly limits: GatewayLimits
  /** The message as it is sent. */
  readonly message: Buffer
  /** The most input tokens: the message and all that it refers to. */
  readonly inputTokens: number
  readonly isWarmUp: boolean
  readonly until: AbortSignal
  /** Called once, before the client gets the end of its response. */
  readonly onEnd: (ended: Ended) => void
}

export interface Passed {
  /** Whether the client has received a part of it. */
  readonly hasBegun: boolean
  /** Whether the client has received the provider's own error or final event. */
  readonly isReported: boolean
  /** The id that a later message can refer to, and its tokens at most. `undefined` when none exists. */
  readonly response: { readonly id: string; readonly tokens: number } | undefined
}

const NOTHING: Usage = {
  source: 'measured',
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
}

export function passAnswer(passing: Passing): Promise<Passed> {
  return new Answering(passing).run()
}

class Answering implements SocketListener {
  readonly #passing: Passing
  readonly #reader = new ResponsesReader()
  readonly #done = Promise.withResolvers<Passed>()
  #timer: NodeJS.Timeout | undefined
  #answeredBytes = 0
  #hasBegun = false
  #isOver = false
  /** The long messages that are being masked, in order of arrival. */
  #masking: Promise<void> | undefined
  readonly #waitedBeforeMs: number

  constructor(passing: Passing) {
    this.#passing = passing
    this.#waitedBeforeMs = passing.client.waitedMs
  }

  async run(): Promise<Passed> {
    const { upstream, until, message, limits } = this.#passing
    const onAbort = () => this.#onTimeout()
    until.addEventListener('abort', onAbort)
    try {
      upstream.listener = this
      this.#wait(limits.answerMs)
      upstream.send(message)
      if (until.aborted) onAbort()
      else if (!upstream.isOpen) this.onClosed()
      return await this.#done.promise
    } finally {
      until.removeEventListener('abort', onAbort)
      clearTimeout(this.#timer)
    }
  }

  message(data: Buffer, isBinary: boolean): void {
    if (this.#isOver) return
    this.#answeredBytes += data.length
    this.#wait(this.#passing.limits.silenceMs)
    const fault = isBinary ? this.#garbage('it sent a message that is not text') : this.#read(data)
    if (fault !== undefined) {
      this.#failStream(fault)
      return
    }
    const { complete, problem } = this.#reader
    if (complete) this.#finish({ kind: 'answered' }, data)
    else if (problem !== undefined) this.#endRefused(data)
    else this.#send(data)
  }

  onClosed(): void {
    if (this.#isClientSlow()) {
      this.#failStream(slowClientEnd(this.#from()))
      return
    }
    const kind = this.#answeredBytes > 0 ? 'broken_stream' : 'unreachable'
    const what = 'it closed the connection before its response was complete'
    this.#failStream(describeFailedEnd(this.#from(), kind, what, true))
  }

  /** Returns what is wrong with an event, before it is forwarded. */
  #read(data: Buffer): FailedEnd | undefined {
    try {
      this.#reader.event(data.toString('utf8'))
      return undefined
    } catch (error) {
      if (error instanceof TooComplex) return tooMuchEnd(this.#from(), 'its response is too complex')
      return this.#garbage('it sent an event that is not in this dialect')
    }
  }

  /** Forwards the provider's own error unchanged, unless it is about the credential. */
  #endRefused(data: Buffer): void {
    const end = this.#refusal()
    this.#finish(end, isOfCredential(end) ? this.#ownWords(end) : data)
  }

  #refusal(): FailedEnd {
    const { problem, problemStatus } = this.#reader
    const from = this.#from()
    if (problemStatus === undefined || this.#hasBegun) return describeBreakOff(from, problem)
    const error = JSON.stringify({ error: readProblem(problem) })
    return describeRefusedEnd(from, problemStatus, {}, Buffer.from(error))
  }

  #ownWords(end: FailedEnd): Buffer {
    const { problem, problemStatus: status = statusOfFailure(end.failure.failure) } = this.#reader
    const error = { status, message: words(end.message, end.hint), names: namesOf(problem) }
    return Buffer.from(this.#hasBegun ? failedMessage(error) : errorMessage(error))
  }

  #onTimeout(): void {
    const isLate = this.#passing.until.reason === TOO_LONG
    if (isLate && this.#isClientSlow()) {
      this.#failStream(slowClientEnd(this.#from()))
      return
    }
    const [kind, what] = isLate
      ? (['timeout', 'its response did not end in time'] as const)
      : (['cancelled', 'the call was cancelled'] as const)
    this.#failStream(describeFailedEnd(this.#from(), kind, what, true))
  }

  #isClientSlow(): boolean {
    const { client, limits } = this.#passing
    return client.waitedMs - this.#waitedBeforeMs >= limits.slowClientMs
  }

  /** The state of such a connection is unknown, so it is not reused. */
  #failStream(end: FailedEnd): void {
    if (this.#isOver) return
    this.#passing.upstream.end()
    this.#finish(end, undefined)
  }

  /** `reported` is the provider's own message that ends the response for the client, if there is one. */
  #finish(end: Ended['end'], reported: Buffer | undefined): void {
    this.#isOver = true
    const { onEnd, message } = this.#passing
    onEnd({
      end,
      usage: this.#used(end),
      sentBytes: message.length,
      receivedBytes: this.#reader.writtenBytes || (end.kind === 'answered' ? this.#answeredBytes : 0),
    })
    if (reported !== undefined) this.#send(reported)
    const passed = {
      hasBegun: this.#hasBegun,
      isReported: reported !== undefined,
      response: this.#response(),
    }
    if (this.#masking === undefined) this.#done.resolve(passed)
    else void this.#masking.then(() => this.#done.resolve(passed))
  }

  #used({ kind }: Ended['end']): Usage | undefined {
    const { usage, writtenBytes, saysNothingUsed } = this.#reader
    if (kind !== 'answered') return this.#estimateUsage()
    const isReported = usage !== undefined && usage.source !== 'absent'
    if (isReported || !this.#passing.isWarmUp || writtenBytes > 0) return usage
    // The provider's report counts here as well. Without one, the usage is estimated.
    return saysNothingUsed ? NOTHING : this.#estimateUsage()
  }

  /** No event reports the input tokens, so they count as held. */
  #estimateUsage(): Usage {
    const outputTokens = estimateOutputTokens(this.#reader.writtenBytes)
    const { inputTokens } = this.#passing
    return { source: 'estimated', inputTokens, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens }
  }

  /**
   * Uses the provider's own count, which includes hidden thinking. Without one, it counts the whole input and output.
   */
  #response(): Passed['response'] {
    const { responseId: id, usage } = this.#reader
    if (id === undefined) return undefined
    const requestCount = this.#passing.inputTokens + this.#answeredBytes
    if (usage === undefined || usage.source === 'absent') return { id, tokens: requestCount }
    const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = usage
    const input = inputTokens + cacheReadTokens + cacheWriteTokens
    // A warm-up's input exists at the provider, whatever its billed usage.
    return { id, tokens: input > 0 && outputTokens > 0 ? input + outputTokens : requestCount }
  }

  #send(data: Buffer): void {
    const { client, upstream } = this.#passing
    this.#hasBegun = true
    if (this.#masking === undefined && data.length <= TURN_BYTES) {
      client.forward(upstream.mask.maskBytes(data), upstream)
      return
    }
    // Reading is paused meanwhile. Messages that were already read wait for their turn.
    upstream.pause()
    const sent = (this.#masking ?? Promise.resolve()).then(async () => {
      client.forward(await upstream.mask.maskInTurns(data), upstream)
      if (this.#masking !== sent) return
      this.#masking = undefined
      if (!client.isBehind) upstream.resume()
    })
    this.#masking = sent
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#silent(ms), ms)
  }

  #silent(ms: number): void {
    // Reading is paused while the client has unread data, and that has its own deadline.
    if (this.#passing.client.isBehind) {
      this.#wait(ms)
      return
    }
    const what = this.#answeredBytes > 0 ? 'its response stalled' : 'it did not respond in time'
    this.#failStream(describeFailedEnd(this.#from(), 'timeout', what, true))
  }

  #garbage(what: string): FailedEnd {
    return garbageEnd(this.#from(), what)
  }

  #from(): Upstream {
    return new Upstream(this.#passing.baseUrl, this.#passing.upstream.mask)
  }
}
