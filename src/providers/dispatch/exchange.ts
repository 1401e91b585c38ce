/** One request and its answer, collected as it comes. What goes wrong is a result here, never an exception. */
import { CraikError } from '../../errors.ts'
import type { Adapter, Endpoint, Failure } from '../adapters/adapter.ts'
import { failureOf } from '../adapters/failure.ts'
import type { ModelRequest, StopReason, ToolCall, Usage } from '../conversation.ts'
import { AnswerGuard } from './answer-guard.ts'

export interface Exchange {
  readonly text: string
  readonly toolCalls: readonly ToolCall[]
  /** The last that the provider said; undefined: it said nothing. */
  readonly usage: Usage | undefined
  /** Of the request; 0 when it surely never left. */
  readonly sentBytes: number
  /** Of text and of tool calls, as they were counted here. */
  readonly receivedBytes: number
  /** The caller has seen some of it. */
  readonly contentPassedOn: boolean
  readonly end:
    | { readonly kind: 'answered'; readonly stopReason: StopReason }
    | {
        readonly kind: 'failed'
        readonly failure: Failure
        readonly message: string
        readonly hint: string
        /** Says nothing about the provider: there was no login to call it with. */
        readonly isOfLogin?: true
        /** Says nothing about the provider either: the caller can bring it about with any. */
        readonly isOfClient?: true
      }
    /** Not the provider's doing: a fault in Craik, or in whoever takes the text. */
    | { readonly kind: 'thrown'; readonly error: unknown }
}

/** What a settlement has to know of an exchange; how often a tool was asked for, only where that was counted. */
export interface Ended extends Pick<Exchange, 'usage' | 'sentBytes' | 'receivedBytes'> {
  readonly toolCalls?: Exchange['toolCalls']
  readonly end:
    | { readonly kind: 'answered'; readonly stopReason?: StopReason }
    | Exclude<Exchange['end'], { kind: 'answered' }>
}

export async function exchange(
  adapter: Adapter,
  endpoint: Endpoint,
  request: ModelRequest,
  body: string,
  signal: AbortSignal,
  onText: ((text: string) => void) | undefined,
): Promise<Exchange> {
  const guard = new AnswerGuard(endpoint.credential)
  const pieces: string[] = []
  const toolCalls: ToolCall[] = []
  let usage: Usage | undefined
  let receivedBytes = 0
  let contentPassedOn = false
  let end: Exchange['end'] | undefined
  const passOn = (text: string) => {
    if (text === '') return
    pieces.push(text)
    contentPassedOn ||= onText !== undefined
    onText?.(text)
  }
  try {
    for await (const event of adapter.call(endpoint, request, body, signal)) {
      if (event.type === 'text') {
        receivedBytes += Buffer.byteLength(event.text)
        passOn(guard.text(event.text))
      } else if (event.type === 'tool_call') {
        toolCalls.push(guard.call(event.call))
        receivedBytes += Buffer.byteLength(JSON.stringify(event.call.arguments)) + event.call.name.length
        contentPassedOn ||= onText !== undefined
      } else if (event.type === 'usage') usage = event.usage
      else end = { kind: 'answered', stopReason: event.reason }
    }
    passOn(guard.rest())
    end ??= brokenOff()
  } catch (error) {
    end = failureEnd(error)
  }
  const sent = end.kind !== 'failed' || end.failure.sent
  const sentBytes = sent ? Buffer.byteLength(body) : 0
  return { text: pieces.join(''), toolCalls, usage, sentBytes, receivedBytes, contentPassedOn, end }
}

/** The call ended before anything could be sent. */
export function notSent(end: Exchange['end']): Exchange {
  return {
    text: '',
    toolCalls: [],
    usage: undefined,
    sentBytes: 0,
    receivedBytes: 0,
    contentPassedOn: false,
    end,
  }
}

function failureEnd(error: unknown): Exchange['end'] {
  const failure = failureOf(error)
  if (failure === undefined || !(error instanceof CraikError)) return { kind: 'thrown', error }
  return { kind: 'failed', failure, message: error.message, hint: error.hint }
}

/** An adapter that stops without an end has lost it: what came is not an answer. */
function brokenOff(): Exchange['end'] {
  return {
    kind: 'failed',
    failure: {
      failure: 'broken_stream',
      status: undefined,
      retryAfterMs: undefined,
      sent: true,
      refused: false,
    },
    message: 'the answer broke off',
    hint: 'try again: the received part of the answer is incomplete',
  }
}
