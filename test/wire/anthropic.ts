/** A server that speaks Anthropic Messages. */
import type { Certificate } from './certificate.ts'
import {
  type Act,
  frame,
  type ScriptedAnswer,
  type SeenRequest,
  startWire,
  type WireServer,
} from './wire-server.ts'
import { argumentText, halves, usageOf } from './wire-usage.ts'

export function startAnthropic(script: readonly Act[], certificate?: Certificate): Promise<WireServer> {
  return startWire(SPEECH, script, certificate)
}

const SPEECH: ScriptedAnswer = {
  basePath: '/v1',
  keyHeader: 'x-api-key',
  check,
  answer,
  errorFrame: (message) => namedEvent({ type: 'error', error: { type: 'overloaded_error', message } }),
  errorBody: (status, message) =>
    JSON.stringify({
      type: 'error',
      error: { type: status === 429 ? 'rate_limit_error' : 'invalid_request_error', message },
      request_id: 'req_1',
    }),
}

const KNOWN = ['model', 'max_tokens', 'system', 'messages', 'tools', 'stream']

function check({ path, headers, body }: SeenRequest): string | undefined {
  if (path !== '/v1/messages') return `no such path: ${path}`
  if (!headers['x-api-key'] && !headers.authorization) return 'x-api-key header is required'
  if (headers['anthropic-version'] !== '2023-06-01') return 'anthropic-version: header is required'
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) return `${unknown}: Extra inputs are not permitted`
  if (!Number.isInteger(body.max_tokens) || body.max_tokens < 1) return 'max_tokens: Field required'
  if (typeof body.model !== 'string' || body.stream !== true) return 'model and stream are required'
  if (!Array.isArray(body.messages) || body.messages.length === 0) return 'messages: at least one'
  let expected = 'user'
  let open: string[] = []
  for (const message of body.messages) {
    if (message.role !== expected) return `messages: expected ${expected}`
    expected = message.role === 'user' ? 'assistant' : 'user'
    if (!Array.isArray(message.content) || message.content.length === 0) return 'content is empty'
    const results = message.content.filter((block: { type: string }) => block.type === 'tool_result')
    const ids = results.map((block: { tool_use_id: string }) => block.tool_use_id)
    if (open.join() !== ids.join()) return 'tool_use ids were found without tool_result blocks after them'
    if (results.some((block: unknown, at: number) => message.content[at] !== block))
      return 'tool_result blocks come first'
    open = []
    for (const block of message.content) {
      if (block.type === 'text' && block.text === '') return 'text content blocks must be non-empty'
      if (block.type !== 'tool_use') continue
      if (!/^[a-zA-Z0-9_-]+$/.test(block.id) || typeof block.input !== 'object') return 'malformed tool_use'
      open.push(block.id)
    }
  }
  if (expected === 'user') return 'the conversation must end with a user message'
  for (const tool of body.tools ?? [])
    if (typeof tool.name !== 'string' || tool.input_schema?.type !== 'object') return 'malformed tool'
  return undefined
}

function answer(act: Extract<Act, { kind: 'text' | 'tool_call' }>, model: string): string[] {
  const usage = usageOf(act, ({ input, cacheRead, output }) => ({
    input_tokens: input - cacheRead,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cacheRead,
    output_tokens: output,
  }))
  const message = { id: 'msg_1', type: 'message', role: 'assistant', content: [], model, stop_reason: null }
  const began =
    usage === undefined ? message : { ...message, usage: { ...(usage as object), output_tokens: 1 } }
  const frames = [namedEvent({ type: 'message_start', message: began }), namedEvent({ type: 'ping' })]
  let index = 0
  const block = (content_block: unknown, deltas: unknown[]) => {
    frames.push(namedEvent({ type: 'content_block_start', index, content_block }))
    for (const delta of deltas) frames.push(namedEvent({ type: 'content_block_delta', index, delta }))
    frames.push(namedEvent({ type: 'content_block_stop', index }))
    index++
  }
  if (act.text) block({ type: 'text', text: '' }, [{ type: 'text_delta', text: act.text }])
  if (act.kind === 'tool_call') {
    const pieces = ['', ...halves(argumentText(act.arguments))]
    block(
      { type: 'tool_use', id: 'toolu_01', name: act.name, input: {} },
      pieces.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    )
  }
  const stops = { end: 'end_turn', max_tokens: 'max_tokens', refused: 'refusal' }
  const stop_reason = act.stop ? stops[act.stop] : act.kind === 'tool_call' ? 'tool_use' : 'end_turn'
  frames.push(
    namedEvent({
      type: 'message_delta',
      delta: { stop_reason, stop_sequence: null },
      ...(usage !== undefined && { usage }),
    }),
  )
  return [...frames, namedEvent({ type: 'message_stop' })]
}

function namedEvent(data: { readonly type: string; readonly [name: string]: unknown }): string {
  return frame(data, data.type)
}
