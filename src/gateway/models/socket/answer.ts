/** The answer to one message, passed on event by event. What goes wrong is a result here. */

import { TURN_BYTES } from '../../../lib/credential-mask.ts'
import { Upstream } from '../../../providers/adapters/counterpart.ts'
import { readProblem } from '../../../providers/adapters/refusal.ts'
import type { Usage } from '../../../providers/conversation.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import { writtenTokens } from '../../../providers/estimate.ts'
import type { GatewayLimits } from '../../limits.ts'
import { statusOfFailure } from '../dialects/dialect.ts'
import { errorMessage, failedMessage, ResponsesReader } from '../dialects/openai-responses.ts'
import { TOO_LONG } from '../exchange.ts'
import {
  brokenOffEnd,
  type FailedEnd,
  failedEnd,
  garbageEnd,
  isOfCredential,
  namesOf,
  refusedEnd,
  slowClientEnd,
  tooMuchEnd,
} from '../failures.ts'
import { TooComplex } from '../json-members.ts'
import { words } from '../unserved.ts'
import type { ClientSocket } from './client-socket.ts'
import type { SocketListener, UpstreamSocket } from './upstream-socket.ts'

export interface Passing {
  readonly upstream: UpstreamSocket
  readonly baseUrl: string
  readonly client: ClientSocket
  readonly limits: GatewayLimits
  /** As it is sent. */
  readonly message: Buffer
  /** What is asked, with all that it refers to, at most. */
  readonly inputTokens: number
  readonly isWarmUp: boolean
  readonly until: AbortSignal
  /** Called once, before the client is sent what makes its answer whole. */
  readonly onEnd: (ended: Ended) => void
}

export interface Passed {
  /** The client has seen some of it. */
  readonly hasBegun: boolean
  /** It has been told of the end, in the provider's own words. */
  readonly isTold: boolean
  /** What a later message may refer to, and how much that stands for at most; undefined: nothing. */
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
  /** The long messages that are being masked, in the order in which they came. */
  #masking: Promise<void> | undefined
  readonly #waitedBeforeMs: number

  constructor(passing: Passing) {
    this.#passing = passing
    this.#waitedBeforeMs = passing.client.waitedMs
  }

  async run(): Promise<Passed> {
    const { upstream, until, message, limits } = this.#passing
    const onAbort = () => this.#givenUp()
    until.addEventListener('abort', onAbort)
    try {
      upstream.listener = this
      this.#wait(limits.answerMs)
      upstream.send(message)
      if (until.aborted) onAbort()
      else if (!upstream.isOpen) this.closed()
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
      this.#broken(fault)
      return
    }
    const { complete, problem } = this.#reader
    if (complete) this.#finish({ kind: 'answered' }, data)
    else if (problem !== undefined) this.#refused(data)
    else this.#send(data)
  }

  closed(): void {
    if (this.#isClientSlow()) {
      this.#broken(slowClientEnd(this.#from()))
      return
    }
    const kind = this.#answeredBytes > 0 ? 'broken_stream' : 'unreachable'
    const what = 'it closed the connection before its response was complete'
    this.#broken(failedEnd(this.#from(), kind, what, true))
  }

  /** What is wrong with an event, before it is passed on. */
  #read(data: Buffer): FailedEnd | undefined {
    try {
      this.#reader.event(data.toString('utf8'))
      return undefined
    } catch (error) {
      if (error instanceof TooComplex) return tooMuchEnd(this.#from(), 'its response is too complex')
      return this.#garbage('it sent an event that is not in this dialect')
    }
  }

  /** The provider's own error: it is passed on as it is, unless it is about the credential. */
  #refused(data: Buffer): void {
    const end = this.#refusal()
    this.#finish(end, isOfCredential(end) ? this.#ownWords(end) : data)
  }

  #refusal(): FailedEnd {
    const { problem, problemStatus } = this.#reader
    const from = this.#from()
    if (problemStatus === undefined || this.#hasBegun) return brokenOffEnd(from, problem)
    const error = JSON.stringify({ error: readProblem(problem) })
    return refusedEnd(from, problemStatus, {}, Buffer.from(error))
  }

  #ownWords(end: FailedEnd): Buffer {
    const { problem, problemStatus: status = statusOfFailure(end.failure.failure) } = this.#reader
    const error = { status, message: words(end.message, end.hint), names: namesOf(problem) }
    return Buffer.from(this.#hasBegun ? failedMessage(error) : errorMessage(error))
  }

  #givenUp(): void {
    const late = this.#passing.until.reason === TOO_LONG
    if (late && this.#isClientSlow()) {
      this.#broken(slowClientEnd(this.#from()))
      return
    }
    const [kind, what] = late
      ? (['timeout', 'its response did not end in time'] as const)
      : (['cancelled', 'the call was cancelled'] as const)
    this.#broken(failedEnd(this.#from(), kind, what, true))
  }

  #isClientSlow(): boolean {
    const { client, limits } = this.#passing
    return client.waitedMs - this.#waitedBeforeMs >= limits.slowClientMs
  }

  /** Nobody knows what would come next on such a connection: it is not used again. */
  #broken(end: FailedEnd): void {
    if (this.#isOver) return
    this.#passing.upstream.end()
    this.#finish(end, undefined)
  }

  /** `told`: what tells the client, if the provider has said it. */
  #finish(end: Ended['end'], told: Buffer | undefined): void {
    this.#isOver = true
    const { onEnd, message } = this.#passing
    onEnd({
      end,
      usage: this.#used(end),
      sentBytes: message.length,
      receivedBytes: this.#reader.writtenBytes || (end.kind === 'answered' ? this.#answeredBytes : 0),
    })
    if (told !== undefined) this.#send(told)
    const passed = { hasBegun: this.#hasBegun, isTold: told !== undefined, response: this.#response() }
    if (this.#masking === undefined) this.#done.resolve(passed)
    else void this.#masking.then(() => this.#done.resolve(passed))
  }

  #used({ kind }: Ended['end']): Usage | undefined {
    const { usage, writtenBytes, saysNothingUsed } = this.#reader
    if (kind !== 'answered') return this.#spentSoFar()
    const isTold = usage !== undefined && usage.source !== 'absent'
    if (isTold || !this.#passing.isWarmUp || writtenBytes > 0) return usage
    // The provider's word counts here as well; without one, what was sent does.
    return saysNothingUsed ? NOTHING : this.#spentSoFar()
  }

  /** What was asked is told by nothing that came: it counts as it was held. */
  #spentSoFar(): Usage {
    const outputTokens = writtenTokens(this.#reader.writtenBytes)
    const { inputTokens } = this.#passing
    return { source: 'estimated', inputTokens, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens }
  }

  /** The provider's own count, thinking included that nobody saw; without one, all that was asked and said. */
  #response(): Passed['response'] {
    const { responseId: id, usage } = this.#reader
    if (id === undefined) return undefined
    const asked = this.#passing.inputTokens + this.#answeredBytes
    if (usage === undefined || usage.source === 'absent') return { id, tokens: asked }
    const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = usage
    const input = inputTokens + cacheReadTokens + cacheWriteTokens
    // What is only made ready is there all the same, whatever it is billed at.
    return { id, tokens: input > 0 && outputTokens > 0 ? input + outputTokens : asked }
  }

  #send(data: Buffer): void {
    const { client, upstream } = this.#passing
    this.#hasBegun = true
    if (this.#masking === undefined && data.length <= TURN_BYTES) {
      client.forward(upstream.mask.bytes(data), upstream)
      return
    }
    // Nothing more is read meanwhile. Messages that were read already wait for their turn.
    upstream.pause()
    const sent = (this.#masking ?? Promise.resolve()).then(async () => {
      client.forward(await upstream.mask.inTurns(data), upstream)
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
    // Nothing is read while the client is behind, and that has a deadline of its own.
    if (this.#passing.client.isBehind) {
      this.#wait(ms)
      return
    }
    const what = this.#answeredBytes > 0 ? 'its response stalled' : 'it did not respond in time'
    this.#broken(failedEnd(this.#from(), 'timeout', what, true))
  }

  #garbage(what: string): FailedEnd {
    return garbageEnd(this.#from(), what)
  }

  #from(): Upstream {
    return new Upstream(this.#passing.baseUrl, this.#passing.upstream.mask)
  }
}
