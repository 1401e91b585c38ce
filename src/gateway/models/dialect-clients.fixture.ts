/** A client of each of the four dialects, with the matching server. */
import { startAnthropic } from '../../../test/wire/anthropic.ts'
import { startChatCompletions } from '../../../test/wire/chat-completions.ts'
import { startGemini } from '../../../test/wire/gemini.ts'
import { startResponses } from '../../../test/wire/openai-responses.ts'
import type { Act, WireServer } from '../../../test/wire/wire-server.ts'
import type { Account } from '../../accounts/account.ts'
import { account, CERTIFICATE } from '../gateway.fixture.ts'

export const HELLO_TEXT: Act = { kind: 'text', text: 'hello there' }

export interface DialectClient {
  readonly name: string
  readonly path: string
  readonly body: Record<string, unknown>
  readonly capOf: (body: Record<string, never>) => unknown
  readonly header: string
  start(script: readonly Act[]): Promise<WireServer>
  login(baseUrl: string): Account
}

export const ANTHROPIC: DialectClient = {
  name: 'anthropic_messages',
  path: '/v1/messages',
  body: {
    model: 'claude-x',
    max_tokens: 4000,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
    stream: true,
  },
  capOf: (body) => body.max_tokens,
  header: 'x-api-key',
  start: (script) => startAnthropic(script, CERTIFICATE),
  login: (baseUrl) => account({ baseUrl }),
}
const RESPONSES: DialectClient = {
  name: 'openai_responses',
  path: '/v1/responses',
  body: {
    model: 'gpt-x',
    input: [{ role: 'user', content: 'hi' }],
    store: false,
    stream: true,
    max_output_tokens: 4000,
  },
  capOf: (body) => body.max_output_tokens,
  header: 'authorization',
  start: (script) => startResponses(script, CERTIFICATE),
  login: (baseUrl) => account({ id: 'secret/OPENAI_API_KEY', family: 'openai', baseUrl }),
}
export const CHAT: DialectClient = {
  name: 'chat_completions',
  path: '/v1/chat/completions',
  body: {
    model: 'gpt-x',
    messages: [{ role: 'user', content: 'hi' }],
    max_tokens: 4000,
    stream: true,
    stream_options: { include_usage: true },
  },
  capOf: (body) => body.max_tokens,
  header: 'authorization',
  start: (script) => startChatCompletions(script, { certificate: CERTIFICATE }),
  login: (baseUrl) => account({ id: 'secret/OPENAI_API_KEY', family: 'openai', baseUrl }),
}
export const GEMINI: DialectClient = {
  name: 'gemini',
  path: '/v1beta/models/gemini-x:streamGenerateContent?alt=sse',
  body: {
    contents: [{ role: 'user', parts: [{ text: 'hi' }] }],
    generationConfig: { maxOutputTokens: 4000 },
  },
  capOf: (body) => (body.generationConfig as unknown as Record<string, unknown>).maxOutputTokens,
  header: 'x-goog-api-key',
  start: (script) => startGemini(script, CERTIFICATE),
  login: (baseUrl) => account({ id: 'secret/GEMINI_API_KEY', family: 'gemini', baseUrl }),
}
export const DIALECT_CLIENTS = [ANTHROPIC, RESPONSES, CHAT, GEMINI].map(
  (client) => [client.name, client] as const,
)
