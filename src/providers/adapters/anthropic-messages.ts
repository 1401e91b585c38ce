/** The Anthropic Messages dialect. */
import { z } from 'zod'
import type { Json } from '../../lib/canonical-json.ts'
import type { ModelRequest, StopReason, Usage } from '../conversation.ts'
import type { Answer } from './answer.ts'
import { portableCallId } from './call-id.ts'
import { measured } from './counts.ts'
import { httpAdapter, parseEvent } from './http-adapter.ts'
import { problemSchema, streamFailure } from './refusal.ts'
import { systemText, type Turn, turns } from './turns.ts'

export const anthropicMessages = httpAdapter({
  dialect: 'anthropic_messages',
  mayOmitOutputCap: false,
  endsWithStream: false,
  path: () => '/messages',
  headers: (credential): Record<string, string> => ({
    'anthropic-version': '2023-06-01',
    ...(credential !== undefined && { 'x-api-key': credential }),
  }),
  body: encode,
  reader: () => {
    const counts: AnthropicCounts = {}
    return (event, answer) => read(event.data, answer, counts)
  },
})

function encode(request: ModelRequest): Json {
  const system = systemText(request.messages)
  return {
    model: request.model,
    ...(request.maxOutputTokens !== undefined && { max_tokens: request.maxOutputTokens }),
    ...(system !== undefined && { system }),
    messages: turns(request.messages).map(encodeTurn),
    ...(request.tools.length > 0 && {
      tools: request.tools.map(({ name, description, parameters }) => ({
        name,
        description,
        input_schema: parameters,
      })),
    }),
    stream: true,
  }
}

function encodeTurn(turn: Turn): Json {
  if (turn.from === 'user')
    return {
      role: 'user',
      content: turn.messages.map(
        (message): Json =>
          message.role === 'tool'
            ? {
                type: 'tool_result',
                tool_use_id: portableCallId(message.callId),
                content: message.text,
                ...(message.failed && { is_error: true }),
              }
            : { type: 'text', text: message.text },
      ),
    }
  return {
    role: 'assistant',
    content: turn.messages.flatMap(({ text, toolCalls }): Json[] => [
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...toolCalls.map((call) => ({
        type: 'tool_use',
        id: portableCallId(call.id),
        name: call.name,
        input: call.arguments,
      })),
    ]),
  }
}

const usage = z.object({
  input_tokens: z.unknown().optional(),
  cache_creation_input_tokens: z.unknown().optional(),
  cache_read_input_tokens: z.unknown().optional(),
  output_tokens: z.unknown().optional(),
})
const SCHEMAS = {
  message_start: z.object({
    message: z.object({ model: z.string().nullish(), usage: usage.nullish().catch(undefined) }),
  }),
  content_block_start: z.object({
    index: z.int(),
    content_block: z.object({
      type: z.string(),
      text: z.string().nullish(),
      id: z.string().nullish(),
      name: z.string().nullish(),
      input: z.record(z.string(), z.unknown()).nullish(),
    }),
  }),
  content_block_delta: z.object({
    index: z.int(),
    delta: z.object({
      type: z.string(),
      text: z.string().nullish(),
      partial_json: z.string().nullish(),
      thinking: z.string().nullish(),
    }),
  }),
  message_delta: z.object({
    delta: z.object({ stop_reason: z.string().nullish() }),
    usage: usage.nullish().catch(undefined),
  }),
  error: z.object({ error: problemSchema }),
}
type Block = z.infer<typeof SCHEMAS.content_block_start>['content_block']
const typed = z.object({ type: z.string() })

const STOPS: Readonly<Record<string, StopReason>> = {
  end_turn: 'end',
  stop_sequence: 'end',
  tool_use: 'tool_calls',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  refusal: 'refused',
}

export interface AnthropicCounts {
  start?: z.infer<typeof usage>
  last?: z.infer<typeof usage>
}

function read(data: string, answer: Answer, counts: AnthropicCounts): void {
  switch (parseEvent(typed, data, answer).type) {
    case 'message_start': {
      const { message } = parseEvent(SCHEMAS.message_start, data, answer)
      answer.model(message.model)
      if (message.usage) counts.start = message.usage
      const begun = anthropicUsage({ ...counts, last: { output_tokens: 0 } })
      if (begun.source !== 'absent') answer.input(begun)
      return
    }
    case 'content_block_start': {
      const { index, content_block: block } = parseEvent(SCHEMAS.content_block_start, data, answer)
      if (block.type === 'text') answer.text(block.text ?? '')
      else if (block.type === 'tool_use') openCall(index, block, answer)
      else answer.progress()
      return
    }
    case 'content_block_delta': {
      const { index, delta } = parseEvent(SCHEMAS.content_block_delta, data, answer)
      if (delta.type === 'text_delta') answer.text(delta.text ?? '')
      else if (delta.type === 'input_json_delta') answer.callArguments(index, delta.partial_json ?? '')
      else answer.progress(delta.thinking ?? '')
      return
    }
    case 'message_delta': {
      const { delta, usage } = parseEvent(SCHEMAS.message_delta, data, answer)
      if (usage) counts.last = usage
      if (delta.stop_reason) stop(delta.stop_reason, answer)
      return
    }
    case 'message_stop':
      answer.usage(anthropicUsage(counts))
      answer.end()
      return
    case 'error':
      throw streamFailure(answer.from, parseEvent(SCHEMAS.error, data, answer).error)
  }
}

/** The input is `{}` here and follows in pieces; a server that gives it whole sends no pieces. */
function openCall(index: number, block: Block, answer: Answer): void {
  answer.openCall(index, { id: block.id ?? '', name: block.name ?? '' })
  if (Object.keys(block.input ?? {}).length > 0) answer.callArguments(index, JSON.stringify(block.input))
}

function stop(reason: string, answer: Answer): void {
  if (!Object.hasOwn(STOPS, reason)) throw answer.from.garbage('it stopped for a reason that is not known')
  answer.stop(STOPS[reason]!)
}

/**
 * The first event counts the input, the last one everything: what the last one leaves out stands as it was. Only the
 * last one knows the output. Cached input is counted beside `input_tokens`, not in it.
 */
export function anthropicUsage({ start, last }: AnthropicCounts): Usage {
  if (last === undefined) return { source: 'absent' }
  const cacheRead = last.cache_read_input_tokens ?? start?.cache_read_input_tokens ?? 0
  const cacheWrite = last.cache_creation_input_tokens ?? start?.cache_creation_input_tokens ?? 0
  const plain = last.input_tokens ?? start?.input_tokens
  return measured({
    input: [plain, cacheRead, cacheWrite].every((count) => typeof count === 'number' && count >= 0)
      ? Number(plain) + Number(cacheRead) + Number(cacheWrite)
      : undefined,
    cacheRead,
    cacheWrite,
    output: last.output_tokens,
  })
}
