/** The adapter that dials nothing: the same request always gets the same answer. */
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { Message, ModelRequest } from '../conversation.ts'
import type { Adapter, Endpoint, ModelEvent } from './adapter.ts'
import { callNamer } from './call-id.ts'
import { providerFailure } from './failure.ts'

const TOOL = 'run_command'
const COMMAND_REF = 'fixture-action'

/** Asks once for `fixture-action` where `run_command` is offered, then says what came of it. */
export const fixture: Adapter = {
  dialect: 'fixture',
  mayOmitOutputCap: true,

  encode(request) {
    return canonicalJson({
      model: request.model.toWellFormed(),
      messages: request.messages.map(encodeMessage),
      tools: request.tools.map((tool) => ({ ...tool })),
      ...(request.maxOutputTokens === undefined ? {} : { max_output_tokens: request.maxOutputTokens }),
    })
  },

  async *call(_endpoint: Endpoint, request: ModelRequest, body: string, signal: AbortSignal) {
    const events = answer(request)
    const outputChars = events.reduce((sum, event) => sum + canonicalJson(event as unknown as Json).length, 0)
    for (const event of events) {
      cancelIf(signal)
      yield event
    }
    cancelIf(signal)
    yield {
      type: 'usage',
      usage: {
        source: 'measured',
        inputTokens: tokens(Buffer.byteLength(body)),
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: tokens(outputChars),
      },
    }
    const reason = events.some((event) => event.type === 'tool_call') ? 'tool_calls' : 'end'
    yield { type: 'end', reason, model: request.model }
  },
}

function answer(request: ModelRequest): ModelEvent[] {
  const results = request.messages.slice(lastUser(request.messages) + 1).filter((m) => m.role === 'tool')
  const last = results.at(-1)
  if (last !== undefined) {
    const outcome = last.failed ? 'failed' : 'passed'
    return [
      { type: 'text', text: `${COMMAND_REF} ${outcome}; its result has ${last.text.length} characters.` },
    ]
  }
  if (request.tools.some((tool) => tool.name === TOOL)) {
    const id = `fixture_${callNamer(request)(0)}`
    const call = { id, name: TOOL, arguments: { command_ref: COMMAND_REF } }
    return [
      { type: 'text', text: `Running ${COMMAND_REF}.` },
      { type: 'tool_call', call },
    ]
  }
  return [{ type: 'text', text: 'Nothing to run: no command was offered.' }]
}

/** A later prompt of the same conversation starts afresh. */
function lastUser(messages: readonly Message[]): number {
  return messages.findLastIndex((message) => message.role === 'user')
}

function encodeMessage(message: Message): Json {
  const text = message.text.toWellFormed()
  if (message.role === 'assistant')
    return { ...message, text, toolCalls: message.toolCalls.map((call) => ({ ...call })) }
  return { ...message, text }
}

/** Four bytes to a token, rounded up: close enough to English to make budgets look real. */
function tokens(bytes: number): number {
  return Math.ceil(bytes / 4)
}

function cancelIf(signal: AbortSignal): void {
  if (signal.aborted)
    throw providerFailure('cancelled', 'the call to the fixture was cancelled', { sent: false })
}
