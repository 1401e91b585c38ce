/** A server that speaks OpenAI Responses. */
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

export function startResponses(script: readonly Act[], certificate?: Certificate): Promise<WireServer> {
  return startWire(SPEECH, script, certificate)
}

const SPEECH: ScriptedAnswer = {
  basePath: '/v1',
  keyHeader: 'authorization',
  check,
  answer,
  errorFrame: (message) => frame({ type: 'error', code: 'server_error', message, param: null }, 'error'),
  errorBody: (status, message) =>
    JSON.stringify({
      error: {
        message,
        type: status === 429 ? 'requests' : 'invalid_request_error',
        param: null,
        code: null,
      },
    }),
}

const KNOWN = ['model', 'instructions', 'input', 'tools', 'max_output_tokens', 'store', 'stream']

function check({ path, headers, body }: SeenRequest): string | undefined {
  if (path !== '/v1/responses') return `no such path: ${path}`
  if (!/^Bearer \S+$/.test(String(headers.authorization))) return 'no bearer token'
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) return `Unknown parameter: '${unknown}'`
  if (typeof body.model !== 'string' || body.stream !== true) return 'model and stream are required'
  if (body.store !== false) return 'this server stores nothing'
  if ('max_output_tokens' in body && !(body.max_output_tokens >= 16)) return 'max_output_tokens is below 16'
  if (!Array.isArray(body.input) || body.input.length === 0) return 'input is empty'
  const open = new Set<string>()
  for (const item of body.input) {
    if (item.type === 'function_call') {
      JSON.parse(item.arguments)
      open.add(item.call_id)
    } else if (item.type === 'function_call_output') {
      if (!open.delete(item.call_id)) return `No tool call found for function call output ${item.call_id}`
      if (typeof item.output !== 'string') return 'output is no text'
    } else if (!['user', 'assistant'].includes(item.role) || typeof item.content !== 'string')
      return 'malformed input item'
  }
  if (open.size > 0) return `No tool output found for function call ${[...open][0]}`
  for (const tool of body.tools ?? [])
    if (tool.type !== 'function' || typeof tool.name !== 'string') return 'malformed tool'
  return undefined
}

function answer(act: Extract<Act, { kind: 'text' | 'tool_call' }>, model: string): string[] {
  let sequence_number = 0
  const event = (type: string, fields: object) =>
    frame({ type, sequence_number: sequence_number++, ...fields }, type)
  const response = { id: 'resp_1', object: 'response', model, error: null, incomplete_details: null }
  const frames = [
    event('response.created', { response: { ...response, status: 'in_progress', usage: null } }),
    event('response.in_progress', { response: { ...response, status: 'in_progress', usage: null } }),
  ]
  let output_index = 0
  if (act.text) {
    const at = { item_id: 'msg_1', output_index, content_index: 0 }
    const part = { type: 'output_text', text: act.text, annotations: [] }
    const item = { type: 'message', id: 'msg_1', role: 'assistant' }
    frames.push(
      event('response.output_item.added', { output_index, item: { ...item, content: [] } }),
      event('response.content_part.added', { ...at, part: { ...part, text: '' } }),
      event('response.output_text.delta', { ...at, delta: act.text }),
      event('response.output_text.done', { ...at, text: act.text }),
      event('response.content_part.done', { ...at, part }),
      event('response.output_item.done', { output_index, item: { ...item, content: [part] } }),
    )
    output_index++
  }
  if (act.kind === 'tool_call') {
    const whole = argumentText(act.arguments)
    const item = { type: 'function_call', id: 'fc_1', call_id: 'call_abc', name: act.name, arguments: '' }
    const at = { item_id: 'fc_1', output_index }
    frames.push(event('response.output_item.added', { output_index, item }))
    for (const delta of halves(whole))
      frames.push(event('response.function_call_arguments.delta', { ...at, delta }))
    frames.push(
      event('response.function_call_arguments.done', { ...at, arguments: whole }),
      event('response.output_item.done', { output_index, item: { ...item, arguments: whole } }),
    )
  }
  const usage =
    usageOf(act, ({ input, cacheRead, output }) => ({
      input_tokens: input,
      input_tokens_details: { cached_tokens: cacheRead },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    })) ?? null
  const reasons = { max_tokens: 'max_output_tokens', refused: 'content_filter' }
  const cut = act.stop === undefined || act.stop === 'end' ? undefined : reasons[act.stop]
  frames.push(
    cut === undefined
      ? event('response.completed', { response: { ...response, status: 'completed', usage } })
      : event('response.incomplete', {
          response: { ...response, status: 'incomplete', usage, incomplete_details: { reason: cut } },
        }),
  )
  return frames
}
