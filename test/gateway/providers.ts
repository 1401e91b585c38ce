/**
 * Model providers over TLS with the real wire formats, each at its own path. Each accepts one token and records its
 * calls. Tests can then find a leaked placeholder credential, a missing header or a repeated call.
 */
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Certificate } from '../wire/certificate.ts'
import { acceptSocket } from './provider-sockets.ts'

export type Service = 'anthropic' | 'codex' | 'code-assist' | 'openai' | 'gemini' | 'kimi' | 'openrouter'

interface Call {
  readonly service: Service
  /** The part after the base URL. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
  readonly status: number
}

export interface Providers extends AsyncDisposable {
  /** The base URL of each provider, with its version. */
  readonly bases: Readonly<Record<Service, string>>
  /** Returns all calls since the last time. */
  take(): Call[]
  /** While this is set, answers wait for it. */
  gate: Promise<void> | undefined
  /** Called with each call before its answer. */
  onCall: ((call: Call) => void) | undefined
  /** Sets which token a service accepts. It answers any other token with 401. */
  accept(service: Service, isRight: (token: string) => boolean): void
}

export const ANSWER = 'a long answer by the model'
const PREFIXES: Readonly<Record<Service, string>> = {
  anthropic: '/anthropic/v1',
  codex: '/codex',
  'code-assist': '/code-assist/v1internal',
  openai: '/openai/v1',
  gemini: '/gemini/v1beta',
  kimi: '/kimi/v1',
  openrouter: '/openrouter/v1',
}

interface Answered {
  readonly status?: number
  readonly isStream: boolean
  readonly text: string
}

/** Answers calls instead of the default answer that all calls get. */
export interface Answerer {
  (service: Service, path: string, body: string): Answered
  /** Returns the status with which the service currently refuses upgrades. */
  failing?: (service: Service) => number | undefined
}

export async function startProviders(
  { key, cert }: Certificate,
  answerer: Answerer = answerOf,
): Promise<Providers> {
  const rights = new Map<Service, (token: string) => boolean>()
  let calls: Call[] = []
  const parseAddress = ({ url = '' }: IncomingMessage, headers: Call['headers']) => {
    const [service, prefix] = Object.entries(PREFIXES).find(([, each]) => url.startsWith(each)) ?? []
    if (service === undefined) return undefined
    const of = service as Service
    const path = url.slice(prefix!.length)
    const problem = problemOf(of, path, headers)
    const status = problem !== undefined ? 400 : rights.get(of)?.(tokenIn(headers)) ? 200 : 401
    return { of, path, problem, status }
  }
  const keep = async (call: Call) => {
    calls.push(call)
    providers.onCall?.(call)
    await providers.gate
  }
  const server = createServer({ key, cert }, async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const body = Buffer.concat(pieces).toString()
    const { headers } = request
    const found = parseAddress(request, headers)
    if (found === undefined) {
      response.writeHead(404).end()
      return
    }
    const { of, path, problem, status } = found
    await keep({ service: of, path, headers, body, status })
    if (status === 200) {
      const { status: reply = 200, isStream, text } = answerer(of, path, body)
      response.writeHead(reply, { 'content-type': isStream ? 'text/event-stream' : 'application/json' })
      response.end(text)
    } else {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ type: 'error', error: { type: 'x', message: problem ?? 'who are you' } }))
    }
  })
  // Each message is a call, with the headers of the upgrade.
  server.on('upgrade', async (request, stream, head) => {
    const headers = { ...request.headers, 'content-type': 'application/json' }
    const found = parseAddress(request, headers) ?? { of: 'openai' as const, path: '', status: 404 }
    const { of, path } = found
    const status = found.status === 200 ? (answerer.failing?.(of) ?? 200) : found.status
    if (status !== 200 || path !== '/responses') {
      await keep({ service: of, path, headers, body: '', status })
      stream.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`)
      return
    }
    acceptSocket(request, stream, head, async (body) => {
      await keep({ service: of, path, headers, body, status })
      return answerer(of, path, body).text
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const providers: Providers = {
    bases: Object.fromEntries(
      Object.entries(PREFIXES).map(([service, path]) => [service, origin + path]),
    ) as Record<Service, string>,
    take() {
      const taken = calls
      calls = []
      return taken
    },
    gate: undefined,
    onCall: undefined,
    accept: (service, isRight) => void rights.set(service, isRight),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
  return providers
}

/** Returns the token from any header that can contain one. */
function tokenIn(headers: Call['headers']): string {
  const bearer = String(headers.authorization ?? '').replace(/^Bearer /, '')
  return bearer || String(headers['x-api-key'] ?? headers['x-goog-api-key'] ?? '')
}

/** Returns why a real provider would have refused the request. */
function problemOf(service: Service, path: string, headers: Call['headers']): string | undefined {
  const known = {
    anthropic: /^\/messages(?:\?beta=true)?(?:\/count_tokens)?$/,
    codex: /^\/(?:responses|models\?client_version=[0-9.]+)$/,
    'code-assist':
      /^:(?:generateContent|streamGenerateContent\?alt=sse|loadCodeAssist|retrieveUserQuota|listExperiments|countTokens)$/,
    openai: /^\/(?:responses|chat\/completions)$/,
    gemini: /^\/models\/gemini-[a-z0-9.-]+:(?:generateContent|streamGenerateContent\?alt=sse|countTokens)$/,
    kimi: /^\/chat\/completions$/,
    openrouter: /^\/chat\/completions$/,
  }[service]
  if (!known.test(path)) return `no such path: ${path}`
  if (!/^\/models\?/.test(path) && headers['content-type'] !== 'application/json') return 'content-type'
  if (service === 'anthropic') {
    if (headers['anthropic-version'] !== '2023-06-01') return 'anthropic-version'
    const isLogin = headers.authorization !== undefined
    if (isLogin === (headers['x-api-key'] !== undefined)) return 'one credential is wanted'
    const betas = String(headers['anthropic-beta'] ?? '').split(',')
    if (isLogin && !betas.includes('oauth-2025-04-20')) return 'OAuth authentication is not supported'
  }
  if (service === 'codex' && !headers['chatgpt-account-id']) return 'chatgpt-account-id'
  return undefined
}

const event = (data: unknown, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
const namedEvent = (data: { readonly type: string; readonly [name: string]: unknown }) =>
  event(data, data.type)

function answerOf(
  service: Service,
  path: string,
  body: string,
): { readonly isStream: boolean; readonly text: string } {
  const requested = JSON.parse(body) as { readonly stream?: boolean; readonly model?: string }
  const { model = 'gemini-x' } = requested
  if (service === 'gemini' || service === 'code-assist') {
    const usageMetadata = { promptTokenCount: 12, candidatesTokenCount: 6, totalTokenCount: 18 }
    const content = { role: 'model', parts: [{ text: ANSWER }] }
    const answer = { candidates: [{ content, finishReason: 'STOP', index: 0 }], usageMetadata }
    const whole = service === 'gemini' ? answer : { response: answer, traceId: 'trace-1' }
    const isStream = path.includes(':streamGenerateContent')
    return { isStream, text: isStream ? event(whole) : JSON.stringify(whole) }
  }
  const isStream = requested.stream === true
  if (service === 'anthropic') {
    const usage = { input_tokens: 12, output_tokens: 6 }
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model, stop_reason: null, usage }
    if (!isStream) {
      const content = [{ type: 'text', text: ANSWER }]
      return { isStream, text: JSON.stringify({ ...message, content, stop_reason: 'end_turn' }) }
    }
    const delta = { type: 'text_delta', text: ANSWER }
    const events = [
      { type: 'message_start', message: { ...message, content: [] } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 6 } },
      { type: 'message_stop' },
    ]
    return { isStream, text: events.map(namedEvent).join('') }
  }
  if (path === '/responses') {
    const usage = { input_tokens: 12, output_tokens: 6, total_tokens: 18 }
    const part = { type: 'output_text', text: ANSWER, annotations: [] }
    const output = [{ type: 'message', id: 'msg_1', role: 'assistant', content: [part] }]
    const response = { id: 'resp_1', object: 'response', status: 'completed', model, output, usage }
    if (!isStream) return { isStream, text: JSON.stringify(response) }
    const events = [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, delta: ANSWER },
      { type: 'response.completed', response },
    ]
    return { isStream, text: events.map(namedEvent).join('') }
  }
  const usage = { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18 }
  const common = { id: 'chatcmpl-1', created: 1, model }
  if (!isStream) {
    const message = { role: 'assistant', content: ANSWER }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    return { isStream, text: JSON.stringify({ ...common, object: 'chat.completion', choices, usage }) }
  }
  const chunk = (choices: unknown[], more = {}) =>
    event({ ...common, object: 'chat.completion.chunk', choices, ...more })
  const first = { index: 0, delta: { role: 'assistant', content: ANSWER }, finish_reason: null }
  const last = { index: 0, delta: {}, finish_reason: 'stop' }
  return { isStream, text: `${chunk([first])}${chunk([last])}${chunk([], { usage })}data: [DONE]\n\n` }
}
