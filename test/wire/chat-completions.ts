/** A server that speaks Chat Completions. */
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

/** `capField` is the server's parameter for the output limit. The server refuses the other one. */
export function startChatCompletions(
  script: readonly Act[],
  options: {
    readonly key?: boolean
    readonly capField?: 'max_tokens' | 'max_completion_tokens'
    readonly certificate?: Certificate
  } = {},
): Promise<WireServer> {
  return startWire(speech(options.key ?? true, options.capField ?? 'max_tokens'), script, options.certificate)
}

function speech(key: boolean, capField: string): ScriptedAnswer {
  return {
    basePath: '/v1',
    keyHeader: 'authorization',
    check: (request) => check(request, key, capField),
    answer,
    errorFrame: (message) => frame({ error: { message, type: 'server_error', code: null } }),
    errorBody: (status, message) =>
      JSON.stringify({
        error: {
          message,
          type: status === 429 ? 'rate_limit_exceeded' : 'invalid_request_error',
          code: null,
        },
      }),
  }
}

const KNOWN = [
  'model',
  'messages',
  'tools',
  'max_tokens',
  'max_completion_tokens',
  'stream',
  'stream_options',
]

function check({ path, headers, body }: SeenRequest, key: boolean, capField: string): string | undefined {
  if (path !== '/v1/chat/completions') return `no such path: ${path}`
  if (key && !/^Bearer \S+$/.test(String(headers.authorization))) return 'no bearer token'
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) return `unknown parameter ${unknown}`
  const wrongCap = capField === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  if (wrongCap in body) return `unsupported parameter ${wrongCap}, use ${capField}`
  if (typeof body.model !== 'string' || body.stream !== true) return 'model and stream are required'
  if (body.stream_options?.include_usage !== true) return 'this server wants include_usage'
  if (!Array.isArray(body.messages) || body.messages.length === 0) return 'messages is empty'
  let open: string[] = []
  for (const message of body.messages) {
    if (message.role === 'tool') {
      if (!open.includes(message.tool_call_id)) return `no call ${message.tool_call_id}`
      if (typeof message.content !== 'string') return 'tool content is no text'
      open = open.filter((id) => id !== message.tool_call_id)
      continue
    }
    if (open.length > 0) return `no result for ${open[0]}`
    if (message.role === 'assistant' && message.tool_calls !== undefined) {
      for (const call of message.tool_calls) {
        if (call.type !== 'function' || call.id.length > 40) return 'malformed tool call'
        JSON.parse(call.function.arguments)
      }
      open = message.tool_calls.map((call: { id: string }) => call.id)
    } else if (!['system', 'user', 'assistant'].includes(message.role)) return `no role ${message.role}`
    else if (typeof message.content !== 'string') return 'content is no text'
  }
  if (open.length > 0) return `no result for ${open[0]}`
  for (const tool of body.tools ?? [])
    if (tool.type !== 'function' || typeof tool.function?.name !== 'string') return 'malformed tool'
  return undefined
}

function answer(act: Extract<Act, { kind: 'text' | 'tool_call' }>, model: string): string[] {
  const chunk = (delta: unknown, finish_reason: string | null = null, usage?: unknown) =>
    frame({
      id: 'chatcmpl-1',
      object: 'chat.completion.chunk',
      created: 1,
      model,
      choices: delta === undefined ? [] : [{ index: 0, delta, logprobs: null, finish_reason }],
      ...(usage !== undefined && { usage }),
    })
  const frames = [chunk({ role: 'assistant', content: '' })]
  if (act.text) frames.push(chunk({ content: act.text }))
  if (act.kind === 'tool_call') {
    const [first, second] = halves(argumentText(act.arguments))
    const named = { index: 0, id: 'call_abc', type: 'function', function: { name: act.name, arguments: '' } }
    frames.push(chunk({ tool_calls: [named] }))
    for (const piece of [first, second])
      frames.push(chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] }))
  }
  const stops = { end: 'stop', max_tokens: 'length', refused: 'content_filter' }
  frames.push(chunk({}, act.stop ? stops[act.stop] : act.kind === 'tool_call' ? 'tool_calls' : 'stop'))
  const usage = usageOf(act, ({ input, cacheRead, output }) => ({
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cacheRead },
  }))
  if (usage !== undefined) frames.push(chunk(undefined, null, usage))
  return [...frames, frame('[DONE]')]
}
