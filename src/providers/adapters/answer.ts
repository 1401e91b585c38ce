/** One answer while it comes in: what may be passed on at once, and what only its end makes certain. */
import type { Json } from '../../lib/canonical-json.ts'
import type { StopReason, ToolCall, Usage } from '../conversation.ts'
import { estimateOutputTokens, inputTokensAtMost } from '../estimate.ts'
import type { ModelEvent } from './adapter.ts'
import type { Upstream } from './counterpart.ts'
import {
  ARGUMENT_CHARS_MAX,
  ARGUMENT_DEPTH_MAX,
  QUIET_EVENTS_MAX,
  TEXT_CHARS_MAX,
  TOOL_CALLS_MAX,
} from './limits.ts'

interface OpenCall {
  readonly id: string
  readonly name: string
  readonly echo: string | undefined
  readonly pieces: string[]
  chars: number
}

type InputCounts = Pick<
  Extract<Usage, { source: 'measured' | 'estimated' }>,
  'inputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'
>

const CALL_ID = /^[\w.:|/+=-]{1,256}$/
const TOOL_NAME = /^[\w.:-]{1,128}$/

/**
 * Text is passed on as it comes. Tool calls wait for the end: only the stop reason tells whether their arguments
 * were cut, and an answer that was cut or refused asks for nothing.
 */
export class Answer {
  readonly from: Upstream
  readonly #ready: ModelEvent[] = []
  readonly #calls = new Map<number, OpenCall>()
  #usage: Usage = { source: 'absent' }
  #input: InputCounts | undefined
  #writtenBytes = 0
  #stop: StopReason | undefined
  #model: string | undefined
  #heldBack = ''
  #textChars = 0
  #quietEvents = 0
  #ended = false

  constructor(from: Upstream) {
    this.from = from
  }

  get ended(): boolean {
    return this.#ended
  }

  get stopped(): boolean {
    return this.#stop !== undefined
  }

  /** Call for each event before it is read. */
  beginEvent(): void {
    if (++this.#quietEvents > QUIET_EVENTS_MAX)
      throw this.from.garbage(`${QUIET_EVENTS_MAX} events in a row brought nothing`)
  }

  /** Something came; `written` is what the model wrote, also where it is not passed on, such as thinking. */
  progress(written = ''): void {
    this.#quietEvents = 0
    this.#writtenBytes += Buffer.byteLength(written)
  }

  text(delta: string): void {
    if (delta === '') return
    this.progress(delta)
    this.#textChars += delta.length
    if (this.#textChars > TEXT_CHARS_MAX)
      throw this.from.garbage(`its text is longer than ${TEXT_CHARS_MAX} characters`)
    // A server may cut between the two halves of a character.
    let text = this.#heldBack + delta
    this.#heldBack = /[\uD800-\uDBFF]$/.test(text) ? text.slice(-1) : ''
    if (this.#heldBack !== '') text = text.slice(0, -1)
    if (text !== '') this.#ready.push({ type: 'text', text: text.toWellFormed() })
  }

  hasCall(key: number): boolean {
    return this.#calls.has(key)
  }

  callId(key: number): string | undefined {
    return this.#calls.get(key)?.id
  }

  get callCount(): number {
    return this.#calls.size
  }

  openCall(key: number, call: { id: string; name: string; echo?: string | undefined }): void {
    this.progress()
    if (this.#calls.has(key)) throw this.from.garbage('it began the same tool call twice')
    if (this.#calls.size === TOOL_CALLS_MAX)
      throw this.from.garbage(`it asks for more than ${TOOL_CALLS_MAX} tool calls`)
    if (!CALL_ID.test(call.id) || !TOOL_NAME.test(call.name))
      throw this.from.garbage('it asks for a tool call whose id or name is malformed')
    for (const other of this.#calls.values())
      if (other.id === call.id) throw this.from.garbage('two of its tool calls have the same id')
    this.#calls.set(key, { id: call.id, name: call.name, echo: call.echo, pieces: [], chars: 0 })
  }

  callArguments(key: number, delta: string): void {
    const call = this.#calls.get(key)
    if (call === undefined) throw this.from.garbage('it sends arguments of a tool call that it did not begin')
    if (delta !== '') this.progress(delta)
    call.chars += delta.length
    if (call.chars > ARGUMENT_CHARS_MAX)
      throw this.from.garbage(`a tool call has more than ${ARGUMENT_CHARS_MAX} characters of arguments`)
    call.pieces.push(delta)
  }

  /** The arguments as a whole, where a dialect repeats them at the end. */
  allArguments(key: number, text: string): void {
    const call = this.#calls.get(key)
    if (call !== undefined) {
      call.pieces.length = 0
      call.chars = 0
    }
    this.callArguments(key, text)
  }

  usage(usage: Usage): void {
    this.#usage = usage
  }

  /** What the input counts for, where a dialect says so before the end. */
  input(counts: InputCounts): void {
    this.#input = counts
  }

  /** What an answer that broke off has cost so far, as far as it can be told; undefined if nothing came. */
  spentSoFar(requestBytes: number, outputCap = Number.MAX_SAFE_INTEGER): Usage | undefined {
    if (this.#writtenBytes === 0 && this.#input === undefined) return undefined
    const input = inputTokensAtMost(requestBytes)
    return {
      ...(this.#input ?? { inputTokens: input, cacheReadTokens: 0, cacheWriteTokens: 0 }),
      source: 'estimated',
      outputTokens: Math.min(estimateOutputTokens(this.#writtenBytes), outputCap),
    }
  }

  stop(reason: StopReason): void {
    this.#stop = reason
  }

  model(name: string | null | undefined): void {
    this.#model = this.from.modelName(name) ?? this.#model
  }

  /** The dialect's own last event has come. */
  end(): void {
    if (this.#stop === undefined)
      throw this.from.fail('broken_stream', 'it ended its answer without saying why', { status: 200 })
    if (this.#heldBack !== '') this.#ready.push({ type: 'text', text: '\uFFFD' })
    const calls = this.#stop === 'end' || this.#stop === 'tool_calls' ? [...this.#calls.values()] : []
    if (this.#stop === 'tool_calls' && calls.length === 0)
      throw this.from.garbage('it stopped for a tool call and names none')
    for (const call of calls) this.#ready.push({ type: 'tool_call', call: this.#closed(call) })
    this.#ready.push({ type: 'usage', usage: this.#usage })
    this.#ready.push({
      type: 'end',
      reason: calls.length > 0 ? 'tool_calls' : this.#stop,
      model: this.#model,
    })
    this.#ended = true
  }

  /** What can be passed on now, in order; each once. */
  take(): ModelEvent[] {
    return this.#ready.splice(0)
  }

  #closed(call: OpenCall): ToolCall {
    const text = call.pieces.join('')
    const parsed = text.trim() === '' ? {} : parseJson(text)
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed) || !isSound(parsed, 0))
      throw this.from.garbage('the arguments of a tool call are no JSON object')
    return {
      id: call.id,
      name: call.name,
      arguments: parsed as ToolCall['arguments'],
      ...(call.echo === undefined ? {} : { echo: call.echo }),
    }
  }
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** No deeper than a recursive reader can go, and nothing in it that canonical JSON cannot hold. */
function isSound(value: Json | undefined, depth: number): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return true
  if (depth >= ARGUMENT_DEPTH_MAX) return false
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && isSound(member, depth + 1))
}
