/** The Chat Completions dialect, as OpenAI and most local servers speak it. */
import { z } from 'zod'
import type { Json } from '../../lib/canonical-json.ts'
import type { Message, ModelRequest, StopReason, Usage } from '../conversation.ts'
import type { Adapter } from './adapter.ts'
import type { Answer } from './answer.ts'
import { callNamer, portableCallId } from './call-id.ts'
import { isCount, measured } from './counts.ts'
import { httpAdapter, parseEvent } from './http-adapter.ts'
import { problemSchema, streamFailure } from './refusal.ts'
import { spoken } from './turns.ts'

/** OpenAI's reasoning models refuse `max_tokens`; most other servers know no other name and ignore what they do not know. */
export function chatCompletions(baseUrl: string | undefined): Adapter {
  const capField =
    URL.parse(baseUrl ?? '')?.hostname === 'api.openai.com' ? 'max_completion_tokens' : 'max_tokens'
  return httpAdapter({
    dialect: 'chat_completions',
    mayOmitOutputCap: true,
    endsWithStream: false,
    path: () => '/chat/completions',
    headers: (credential): Record<string, string> =>
      credential === undefined ? {} : { authorization: `Bearer ${credential}` },
    body: (request) => encode(request, capField),
    reader: (request) => {
      const nameCall = callNamer(request)
      return (event, answer) => read(event.data, answer, nameCall)
    },
  })
}

function encode(request: ModelRequest, capField: string): Json {
  return {
    model: request.model,
    messages: spoken(request.messages).map(encodeMessage),
    ...(request.tools.length > 0 && {
      tools: request.tools.map(({ name, description, parameters }) => ({
        type: 'function',
        function: { name, description, parameters },
      })),
    }),
    ...(request.maxOutputTokens !== undefined && { [capField]: request.maxOutputTokens }),
    stream: true,
    stream_options: { include_usage: true },
  }
}

function encodeMessage(message: Message): Json {
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, content: message.text }
    case 'tool':
      return { role: 'tool', tool_call_id: portableCallId(message.callId), content: message.text }
    case 'assistant':
      if (message.toolCalls.length === 0) return { role: 'assistant', content: message.text }
      return {
        role: 'assistant',
        content: message.text === '' ? null : message.text,
        tool_calls: message.toolCalls.map((call) => ({
          id: portableCallId(call.id),
          type: 'function',
          function: { name: call.name, arguments: JSON.stringify(call.arguments) },
        })),
      }
  }
}

const toolCallDelta = z.object({
  index: z.int().min(0).nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
})
const chunk = z.object({
  error: problemSchema.nullish(),
  model: z.string().nullish(),
  choices: z
    .array(
      z.object({
        index: z.int().nullish(),
        delta: z
          .object({
            content: z.string().nullish(),
            refusal: z.string().nullish(),
            reasoning: z.unknown().optional(),
            reasoning_content: z.unknown().optional(),
            tool_calls: z.array(toolCallDelta).nullish(),
          })
          .nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.unknown().optional(),
})

const STOPS: Readonly<Record<string, StopReason>> = {
  stop: 'end',
  length: 'max_tokens',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'refused',
}

function read(data: string, answer: Answer, nameCall: (at: number) => string): void {
  if (data.trim() === '[DONE]') {
    answer.end()
    return
  }
  const event = parseEvent(chunk, data, answer)
  if (event.error) throw streamFailure(answer.from, event.error)
  answer.model(event.model)
  if (event.usage !== undefined && event.usage !== null) answer.usage(chatUsage(event.usage))
  for (const choice of event.choices ?? []) {
    if ((choice.index ?? 0) !== 0)
      throw answer.from.garbage('it sent more than the one answer it was asked for')
    const { delta, finish_reason: reason } = choice
    const thinking = delta?.reasoning_content ?? delta?.reasoning
    if (thinking) answer.progress(typeof thinking === 'string' ? thinking : '')
    answer.text(delta?.content ?? '')
    answer.text(delta?.refusal ?? '')
    for (const call of delta?.tool_calls ?? []) readToolCall(call, answer, nameCall)
    if (delta?.refusal) answer.stop('refused')
    else if (reason) stop(reason, answer)
  }
}

/** A piece belongs to the call with its index. Servers that leave indexes out, or repeat one, tell calls apart by id. */
function readToolCall(
  delta: z.infer<typeof toolCallDelta>,
  answer: Answer,
  nameCall: (at: number) => string,
): void {
  const last = answer.callCount - 1
  let key = delta.index ?? (delta.id ? answer.callCount : Math.max(last, 0))
  if (delta.id && answer.hasCall(key) && answer.callId(key) !== delta.id) key = answer.callCount
  if (!answer.hasCall(key))
    answer.openCall(key, { id: delta.id || nameCall(key), name: delta.function?.name ?? '' })
  answer.callArguments(key, delta.function?.arguments ?? '')
}

function stop(reason: string, answer: Answer): void {
  if (!Object.hasOwn(STOPS, reason)) throw answer.from.garbage('it stopped for a reason that is not known')
  answer.stop(STOPS[reason]!)
}

const usage = z.object({
  prompt_tokens: z.unknown().optional(),
  completion_tokens: z.unknown().optional(),
  total_tokens: z.unknown().optional(),
  prompt_tokens_details: z.object({ cached_tokens: z.unknown().optional() }).nullish(),
})

export function chatUsage(reported: unknown): Usage {
  const counts = usage.safeParse(reported).data
  if (counts === undefined) return { source: 'absent' }
  const { prompt_tokens: input, completion_tokens: completion, total_tokens: total } = counts
  // Some servers count reasoning in the total only.
  const output =
    isCount(input) && isCount(completion) && isCount(total) ? Math.max(completion, total - input) : completion
  return measured({
    input,
    cacheRead: counts.prompt_tokens_details?.cached_tokens ?? 0,
    cacheWrite: 0,
    output,
  })
}
