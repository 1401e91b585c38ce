import { expect, test } from 'vitest'
import { scanObject } from '../json-members.ts'
import { anthropicMessagesDialect } from './anthropic-messages.ts'
import { chatCompletionsDialect } from './chat-completions.ts'
import type { DialectRequest, GatewayDialect } from './dialect.ts'
import { codeAssistDialect, geminiDialect } from './gemini.ts'
import { openaiResponsesDialect } from './openai-responses.ts'

const parseAsk = (dialect: GatewayDialect, body: unknown, model?: string) => {
  const bytes = Buffer.from(JSON.stringify(body))
  return dialect.ask({ bytes, members: scanObject(bytes, dialect.lookInto) }, model) as DialectRequest
}
const serializeAsk = (ask: DialectRequest, cap: number, baseUrl = 'https://api.example/v1') =>
  JSON.parse(ask.spelled({ cap }, baseUrl).toString())

test('a missing output limit is added under the right name', () => {
  expect(serializeAsk(parseAsk(anthropicMessagesDialect, { model: 'm' }), 7)).toEqual({
    max_tokens: 7,
    model: 'm',
  })
  expect(serializeAsk(parseAsk(openaiResponsesDialect, { model: 'm' }), 7)).toEqual({
    max_output_tokens: 7,
    model: 'm',
  })
  expect(serializeAsk(parseAsk(chatCompletionsDialect, { model: 'm' }), 7)).toEqual({
    max_tokens: 7,
    model: 'm',
  })
  expect(
    serializeAsk(parseAsk(chatCompletionsDialect, { model: 'm' }), 7, 'https://api.openai.com/v1'),
  ).toEqual({
    max_completion_tokens: 7,
    model: 'm',
  })
  expect(serializeAsk(parseAsk(geminiDialect, {}, 'm'), 7)).toEqual({
    generationConfig: { maxOutputTokens: 7 },
  })
  expect(serializeAsk(parseAsk(codeAssistDialect, { model: 'm', request: { contents: [] } }), 7)).toEqual({
    model: 'm',
    request: { generationConfig: { maxOutputTokens: 7 }, contents: [] },
  })
})

test('both fields of a limit are kept within it', () => {
  const ask = parseAsk(chatCompletionsDialect, { model: 'm', max_tokens: 5, max_completion_tokens: 900 })
  expect(ask.maxOutputTokens).toBe(900)
  expect(serializeAsk(ask, 3)).toMatchObject({ max_tokens: 3, max_completion_tokens: 3 })
})

test('Gemini’s two names for a field are one field', () => {
  const ask = parseAsk(geminiDialect, { generation_config: { max_output_tokens: 900 } }, 'm')
  expect(ask.maxOutputTokens).toBe(900)
  expect(serializeAsk(ask, 3)).toEqual({ generation_config: { max_output_tokens: 3 } })
  const both = { generationConfig: { maxOutputTokens: 5 }, generation_config: { maxOutputTokens: 900 } }
  expect(parseAsk(geminiDialect, both, 'm')).toHaveProperty('malformed')
})

test.each<[string, GatewayDialect, unknown]>([
  ['several answers of Chat Completions', chatCompletionsDialect, { model: 'm', n: 4 }],
  ['several answers of Gemini', geminiDialect, { generationConfig: { candidateCount: 4 } }],
  ['an answer that is made in the background', openaiResponsesDialect, { model: 'm', background: true }],
  ['a cap of nothing', anthropicMessagesDialect, { model: 'm', max_tokens: 0 }],
])('%s is refused, because its hold cannot be computed', (_, dialect, body) => {
  expect(parseAsk(dialect, body, 'm')).toHaveProperty('malformed')
})

test.each<[string, GatewayDialect, unknown]>([
  ['input that is kept on the other side', openaiResponsesDialect, { model: 'm', previous_response_id: 'r' }],
  ['a cache that is kept on the other side', geminiDialect, { cachedContent: 'c' }],
  ['a dearer tier', openaiResponsesDialect, { model: 'm', service_tier: 'priority' }],
])('%s has no known price', (_, dialect, body) => {
  expect(parseAsk(dialect, body, 'm').unpriced).toBe(true)
})

test('Code Assist’s responses are read in their envelope', () => {
  const reader = codeAssistDialect.reader()
  const piece = {
    candidates: [{ content: { parts: [{ text: 'hello' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
  }
  reader.event(JSON.stringify({ response: piece, traceId: 't' }))
  expect(reader.complete).toBe(false)
  reader.end()
  expect(reader).toMatchObject({
    complete: true,
    usage: { inputTokens: 10, outputTokens: 5 },
    writtenBytes: 5,
  })
})

test('complete responses are read in each dialect, and others are rejected', () => {
  const usage = { input_tokens: 10, output_tokens: 5 }
  const whole: [GatewayDialect, object][] = [
    [anthropicMessagesDialect, { type: 'message', usage }],
    [openaiResponsesDialect, { object: 'response', usage, error: null }],
    [chatCompletionsDialect, { choices: [{}], usage: { prompt_tokens: 10, completion_tokens: 5 } }],
    [
      geminiDialect,
      [
        {
          candidates: [{ finishReason: 'STOP' }],
          usageMetadata: { promptTokenCount: 10, totalTokenCount: 15 },
        },
      ] as never,
    ],
  ]
  for (const [dialect, answer] of whole) {
    const reader = dialect.reader()
    expect(reader.whole(answer as never)).toBe(true)
    expect(reader.usage).toMatchObject({ source: 'measured', inputTokens: 10, outputTokens: 5 })
    expect(dialect.reader().whole({ hello: 1 })).toBe(false)
  }
})
