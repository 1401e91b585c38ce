/** A server that speaks Gemini's streamGenerateContent. */
import type { Certificate } from './certificate.ts'
import {
  type Act,
  frame,
  type ScriptedAnswer,
  type SeenRequest,
  startWire,
  type WireServer,
} from './wire-server.ts'
import { usageOf } from './wire-usage.ts'

/** The signature of the server's tool calls. The server refuses a conversation without it, as Gemini 3 does. */
export const SIGNATURE = 'c2lnbmF0dXJl'

export function startGemini(script: readonly Act[], certificate?: Certificate): Promise<WireServer> {
  return startWire(SPEECH, script, certificate)
}

const SPEECH: ScriptedAnswer = {
  basePath: '/v1beta',
  keyHeader: 'x-goog-api-key',
  check,
  answer,
  errorFrame: (message) => frame({ error: { code: 503, message, status: 'UNAVAILABLE' } }),
  errorBody: (status, message) =>
    JSON.stringify({
      error: { code: status, message, status: status === 429 ? 'RESOURCE_EXHAUSTED' : 'INVALID_ARGUMENT' },
    }),
}

const KNOWN = ['systemInstruction', 'contents', 'tools', 'generationConfig']

interface Part {
  readonly text?: string
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: object }
  readonly functionResponse?: { readonly id?: string; readonly name: string; readonly response: object }
  readonly thoughtSignature?: string
}

function check({ path, headers, body }: SeenRequest): string | undefined {
  if (!/^\/v1beta\/models\/[\w.-]+:streamGenerateContent\?alt=sse$/.test(path)) return `no such path: ${path}`
  if (!headers['x-goog-api-key']) return 'API key not given'
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) return `Unknown name "${unknown}"`
  if (!Array.isArray(body.contents) || body.contents.length === 0) return 'contents is not specified'
  let expected = 'user'
  let open: string[] = []
  for (const content of body.contents as { role: string; parts: Part[] }[]) {
    if (content.role !== expected) return 'roles must alternate between user and model'
    expected = content.role === 'user' ? 'model' : 'user'
    if (!Array.isArray(content.parts) || content.parts.length === 0) return 'parts must not be empty'
    const answers = content.parts.flatMap((part) => part.functionResponse ?? [])
    if (open.join() !== answers.map(({ id, name }) => `${id} ${name}`).join())
      return 'function responses must match the function calls of the turn before'
    if (answers.some(({ response }) => typeof response !== 'object')) return 'response must be an object'
    const calls = content.parts.flatMap((part) => (part.functionCall ? [part] : []))
    if (calls.length > 0 && calls[0]!.thoughtSignature === undefined)
      return 'Function call is missing a thought_signature in functionCall parts'
    open = calls.map(({ functionCall }) => `${functionCall!.id} ${functionCall!.name}`)
  }
  if (expected === 'user') return 'the conversation must end with a user turn'
  for (const tool of body.tools ?? [])
    for (const { name, parametersJsonSchema } of tool.functionDeclarations)
      if (typeof name !== 'string' || parametersJsonSchema?.type !== 'object') return 'malformed tool'
  return undefined
}

function answer(act: Extract<Act, { kind: 'text' | 'tool_call' }>, model: string): string[] {
  const usage = usageOf(act, ({ input, cacheRead, output }) => ({
    promptTokenCount: input,
    cachedContentTokenCount: cacheRead,
    candidatesTokenCount: output - Math.min(output, 10),
    thoughtsTokenCount: Math.min(output, 10),
    totalTokenCount: input + output,
  }))
  const chunk = (parts: unknown[], finishReason?: string) =>
    frame({
      candidates: [{ ...(finishReason && { finishReason }), content: { role: 'model', parts }, index: 0 }],
      modelVersion: model,
      ...(usage !== undefined && { usageMetadata: usage }),
    }).replaceAll('\n', '\r\n')
  const frames: string[] = []
  if (act.text) frames.push(chunk([{ text: act.text }]))
  if (act.kind === 'tool_call')
    frames.push(
      chunk([{ functionCall: { name: act.name, args: act.arguments }, thoughtSignature: SIGNATURE }]),
    )
  const stops = { end: 'STOP', max_tokens: 'MAX_TOKENS', refused: 'SAFETY' }
  return [...frames, chunk([{ text: '' }], stops[act.stop ?? 'end'])]
}
