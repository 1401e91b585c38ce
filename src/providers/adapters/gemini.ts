/** The Gemini dialect: `streamGenerateContent` as server-sent events. */
import { z } from 'zod'
import type { Json } from '../../lib/canonical-json.ts'
import type { ModelRequest, StopReason, ToolCall, Usage } from '../conversation.ts'
import type { Answer } from './answer.ts'
import { callNamer } from './call-id.ts'
import { isCount, measured } from './counts.ts'
import { httpAdapter, parseEvent } from './http-adapter.ts'
import { ARGUMENT_CHARS_MAX } from './limits.ts'
import { problemSchema, streamFailure } from './refusal.ts'
import { systemText, type Turn, turns } from './turns.ts'

/** What Google documents for calls that another model made: they have no signature to give back. */
const NO_SIGNATURE = 'skip_thought_signature_validator'

export const gemini = httpAdapter({
  dialect: 'gemini',
  mayOmitOutputCap: true,
  // The last event is known by its `finishReason`; another with counts may follow.
  endsWithStream: true,
  path: ({ model }) =>
    `/models/${encodeURIComponent(model.replace(/^models\//, ''))}:streamGenerateContent?alt=sse`,
  // The key may stand in the URL too, where every log would see it.
  headers: (credential): Record<string, string> =>
    credential === undefined ? {} : { 'x-goog-api-key': credential },
  body: encode,
  reader: (request) => {
    const nameCall = callNamer(request)
    return (event, answer) => read(event.data, answer, nameCall)
  },
})

function encode(request: ModelRequest): Json {
  const system = systemText(request.messages)
  const wantsSignatures = /^(?:models\/)?gemini-(?:[3-9]|\d\d)/.test(request.model)
  return {
    ...(system !== undefined && { systemInstruction: { parts: [{ text: system }] } }),
    contents: turns(request.messages).map((turn) => encodeTurn(turn, wantsSignatures)),
    ...(request.tools.length > 0 && {
      tools: [
        {
          functionDeclarations: request.tools.map(({ name, description, parameters }) => ({
            name,
            description,
            parametersJsonSchema: parameters,
          })),
        },
      ],
    }),
    ...(request.maxOutputTokens !== undefined && {
      generationConfig: { maxOutputTokens: request.maxOutputTokens },
    }),
  }
}

function encodeTurn(turn: Turn, wantsSignatures: boolean): Json {
  if (turn.from === 'user')
    return {
      role: 'user',
      parts: turn.messages.map(
        (message): Json =>
          message.role === 'tool'
            ? {
                functionResponse: {
                  id: message.callId,
                  name: message.name,
                  response: { [message.failed ? 'error' : 'output']: message.text },
                },
              }
            : { text: message.text },
      ),
    }
  return {
    role: 'model',
    parts: turn.messages.flatMap(({ text, toolCalls }): Json[] => [
      ...(text === '' ? [] : [{ text }]),
      ...encodeCalls(toolCalls, wantsSignatures),
    ]),
  }
}

/** Of several calls made at once only the first carries a signature. */
function encodeCalls(calls: readonly ToolCall[], wantsSignatures: boolean): Json[] {
  const signed = calls.some((call) => call.echo !== undefined)
  return calls.map((call, at) => {
    const signature = call.echo ?? (wantsSignatures && !signed && at === 0 ? NO_SIGNATURE : undefined)
    return {
      functionCall: { id: call.id, name: call.name, args: call.arguments },
      ...(signature !== undefined && { thoughtSignature: signature }),
    }
  })
}

const chunk = z.object({
  error: problemSchema.nullish(),
  modelVersion: z.string().nullish(),
  promptFeedback: z.object({ blockReason: z.string().nullish() }).nullish(),
  candidates: z
    .array(
      z.object({
        index: z.int().nullish(),
        finishReason: z.string().nullish(),
        content: z
          .object({
            parts: z
              .array(
                z.object({
                  text: z.string().nullish(),
                  thought: z.boolean().nullish(),
                  thoughtSignature: z.string().max(ARGUMENT_CHARS_MAX).nullish(),
                  functionCall: z
                    .object({
                      id: z.string().nullish(),
                      name: z.string(),
                      args: z.record(z.string(), z.unknown()).nullish(),
                    })
                    .nullish(),
                }),
              )
              .nullish(),
          })
          .nullish(),
      }),
    )
    .nullish(),
  usageMetadata: z.unknown().optional(),
})
type Part = NonNullable<
  NonNullable<NonNullable<z.infer<typeof chunk>['candidates']>[number]['content']>['parts']
>[number]

const STOPS: Readonly<Record<string, StopReason>> = {
  STOP: 'end',
  MAX_TOKENS: 'max_tokens',
  SAFETY: 'refused',
  RECITATION: 'refused',
  LANGUAGE: 'refused',
  BLOCKLIST: 'refused',
  PROHIBITED_CONTENT: 'refused',
  SPII: 'refused',
}

function read(data: string, answer: Answer, nameCall: (at: number) => string): void {
  const event = parseEvent(chunk, data, answer)
  if (event.error) throw streamFailure(answer.from, event.error)
  answer.model(event.modelVersion)
  if (event.usageMetadata !== undefined && event.usageMetadata !== null)
    answer.usage(geminiUsage(event.usageMetadata))
  if (event.promptFeedback?.blockReason) answer.stop('refused')
  for (const candidate of event.candidates ?? []) {
    if ((candidate.index ?? 0) !== 0)
      throw answer.from.garbage('it sent more than the one answer it was asked for')
    for (const part of candidate.content?.parts ?? []) readPart(part, answer, nameCall)
    if (candidate.finishReason) stop(candidate.finishReason, answer)
  }
}

/** A call comes whole, and older models give it no id. */
function readPart(part: Part, answer: Answer, nameCall: (at: number) => string): void {
  if (part.functionCall) {
    const key = answer.callCount
    const { id, name, args } = part.functionCall
    answer.openCall(key, { id: id || nameCall(key), name, echo: part.thoughtSignature ?? undefined })
    answer.callArguments(key, JSON.stringify(args ?? {}))
  } else if (part.thought === true) answer.progress(part.text ?? '')
  else answer.text(part.text ?? '')
}

function stop(reason: string, answer: Answer): void {
  if (reason === 'FINISH_REASON_UNSPECIFIED') return
  if (!Object.hasOwn(STOPS, reason)) throw answer.from.garbage('it stopped without a usable answer')
  answer.stop(STOPS[reason]!)
}

const usage = z.object({
  promptTokenCount: z.unknown().optional(),
  toolUsePromptTokenCount: z.unknown().optional(),
  cachedContentTokenCount: z.unknown().optional(),
  candidatesTokenCount: z.unknown().optional(),
  thoughtsTokenCount: z.unknown().optional(),
  totalTokenCount: z.unknown().optional(),
})

/** Zeros are left out on this wire, so of the output at least the total has to be there. Thoughts are output. */
export function geminiUsage(reported: unknown): Usage {
  const counts = usage.safeParse(reported).data
  if (counts === undefined) return { source: 'absent' }
  const prompt = counts.promptTokenCount
  const toolUse = counts.toolUsePromptTokenCount ?? 0
  const candidates = counts.candidatesTokenCount ?? 0
  const thoughts = counts.thoughtsTokenCount ?? 0
  const total = counts.totalTokenCount ?? counts.candidatesTokenCount
  if (![prompt, toolUse, candidates, thoughts, total].every(isCount)) return { source: 'absent' }
  const input = Number(prompt) + Number(toolUse)
  return measured({
    input,
    cacheRead: counts.cachedContentTokenCount ?? 0,
    cacheWrite: 0,
    output: Math.max(Number(candidates) + Number(thoughts), Number(total) - input),
  })
}
