/** The OpenAI Responses dialect. Nothing is stored on the other side: every request tells the whole conversation. */
import { z } from 'zod'
import type { Json } from '../../lib/canonical-json.ts'
import type { Message, ModelRequest, Usage } from '../conversation.ts'
import type { Answer } from './answer.ts'
import { portableCallId } from './call-id.ts'
import { measured } from './counts.ts'
import { httpAdapter, parseEvent } from './http-adapter.ts'
import { problemSchema, readProblem, streamFailure } from './refusal.ts'
import { spoken, systemText } from './turns.ts'

export const openaiResponses = httpAdapter({
  dialect: 'openai_responses',
  mayOmitOutputCap: true,
  endsWithStream: false,
  path: () => '/responses',
  headers: (credential): Record<string, string> =>
    credential === undefined ? {} : { authorization: `Bearer ${credential}` },
  body: encode,
  reader: () => {
    const seen = { refusal: false }
    return (event, answer) => read(event.data, answer, seen)
  },
})

function encode(request: ModelRequest): Json {
  const instructions = systemText(request.messages)
  return {
    model: request.model,
    ...(instructions !== undefined && { instructions }),
    input: spoken(request.messages).flatMap(encodeMessage),
    ...(request.tools.length > 0 && {
      tools: request.tools.map(({ name, description, parameters }) => ({
        type: 'function',
        name,
        description,
        parameters,
        // Strict mode takes only a subset of JSON Schema.
        strict: false,
      })),
    }),
    ...(request.maxOutputTokens !== undefined && { max_output_tokens: request.maxOutputTokens }),
    store: false,
    stream: true,
  }
}

function encodeMessage(message: Message): Json[] {
  switch (message.role) {
    case 'system':
      return []
    case 'user':
      return [{ role: 'user', content: message.text }]
    case 'tool':
      return [{ type: 'function_call_output', call_id: portableCallId(message.callId), output: message.text }]
    case 'assistant':
      return [
        ...(message.text === '' ? [] : [{ role: 'assistant', content: message.text }]),
        ...message.toolCalls.map((call) => ({
          type: 'function_call',
          call_id: portableCallId(call.id),
          name: call.name,
          arguments: JSON.stringify(call.arguments),
        })),
      ]
  }
}

const item = z.object({
  output_index: z.int().min(0),
  item: z.object({
    type: z.string(),
    call_id: z.string().nullish(),
    name: z.string().nullish(),
    arguments: z.string().nullish(),
  }),
})
const textDelta = z.object({ delta: z.string() })
const argumentsDelta = z.object({ output_index: z.int().min(0), delta: z.string() })
const finished = z.object({
  response: z.object({
    model: z.string().nullish(),
    usage: z.unknown().optional(),
    error: problemSchema.nullish(),
    incomplete_details: z.object({ reason: z.string().nullish() }).nullish(),
  }),
})
/** The fields stand on the event itself, or in an `error` of their own. */
const failed = z.object({
  error: problemSchema.nullish(),
  code: z.string().nullish(),
  message: z.string().nullish(),
})
const typed = z.object({ type: z.string() })

function read(data: string, answer: Answer, seen: { refusal: boolean }): void {
  const { type } = parseEvent(typed, data, answer)
  switch (type) {
    case 'response.output_text.delta':
      answer.text(parseEvent(textDelta, data, answer).delta)
      return
    case 'response.refusal.delta':
      seen.refusal = true
      answer.text(parseEvent(textDelta, data, answer).delta)
      return
    case 'response.output_item.added':
    case 'response.output_item.done':
      readItem(parseEvent(item, data, answer), answer)
      return
    case 'response.function_call_arguments.delta': {
      const { output_index: key, delta } = parseEvent(argumentsDelta, data, answer)
      answer.callArguments(key, delta)
      return
    }
    case 'response.completed':
    case 'response.incomplete': {
      const { response } = parseEvent(finished, data, answer)
      answer.model(response.model)
      answer.usage(responsesUsage(response.usage))
      if (type === 'response.incomplete') cut(response.incomplete_details?.reason, answer)
      else answer.stop(seen.refusal ? 'refused' : 'end')
      answer.end()
      return
    }
    case 'response.failed':
      throw streamFailure(answer.from, parseEvent(finished, data, answer).response.error ?? {})
    case 'error': {
      const { error, code, message } = parseEvent(failed, data, answer)
      throw streamFailure(answer.from, error ?? readProblem({ code, message }))
    }
    default:
      if (/^response\.reasoning.*\.delta$/.test(type))
        answer.progress(parseEvent(textDelta, data, answer).delta)
  }
}

/** A call is announced with empty arguments and repeated whole when it is done. */
function readItem({ output_index: key, item: found }: z.infer<typeof item>, answer: Answer): void {
  if (found.type !== 'function_call') {
    answer.progress()
    return
  }
  const call = { id: found.call_id ?? '', name: found.name ?? '' }
  if (!answer.hasCall(key)) answer.openCall(key, call)
  else if (answer.callId(key) !== call.id) throw answer.from.garbage('a tool call changed its id')
  if (found.arguments) answer.allArguments(key, found.arguments)
}

function cut(reason: string | null | undefined, answer: Answer): void {
  if (reason === 'max_output_tokens') answer.stop('max_tokens')
  else if (reason === 'content_filter') answer.stop('refused')
  else throw answer.from.garbage('its answer is incomplete for a reason that is not known')
}

const usage = z.object({
  input_tokens: z.unknown().optional(),
  output_tokens: z.unknown().optional(),
  input_tokens_details: z.object({ cached_tokens: z.unknown().optional() }).nullish(),
})

/** Cached input is part of `input_tokens`, reasoning part of `output_tokens`. */
export function responsesUsage(reported: unknown): Usage {
  const counts = usage.safeParse(reported).data
  if (counts === undefined) return { source: 'absent' }
  return measured({
    input: counts.input_tokens,
    cacheRead: counts.input_tokens_details?.cached_tokens ?? 0,
    cacheWrite: 0,
    output: counts.output_tokens,
  })
}
