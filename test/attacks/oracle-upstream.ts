/**
 * A provider and a GitHub in one server that repeats its caller's data: the text of the request, and the credential in
 * each encoding. The request decides how: `MODE=bad WORDS(…)`.
 */
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { WebSocketServer } from 'ws'
import type { Certificate } from '../wire/certificate.ts'

const base64 = (offset: number) => (text: string) => Buffer.from('~'.repeat(offset) + text).toString('base64')

/** The ways in which an upstream may encode a value. */
export const ENCODINGS: Readonly<Record<string, (text: string) => string>> = {
  raw: (text) => text,
  'in capitals': (text) => text.toUpperCase(),
  'url-encoded': (text) => encodeURIComponent(text),
  'JSON-escaped': (text) => JSON.stringify(JSON.stringify(text)).slice(3, -3),
  'base64 at 0': base64(0),
  'base64 at 1': base64(1),
  'base64 at 2': base64(2),
  'base64url at 0': (text) => Buffer.from(text).toString('base64url'),
  'base64url at 1': (text) => Buffer.from(`~${text}`).toString('base64url'),
  hex: (text) => Buffer.from(text).toString('hex'),
  'hex in capitals': (text) => Buffer.from(text).toString('hex').toUpperCase(),
}

export interface Upstream extends AsyncDisposable {
  readonly origin: string
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

export async function startUpstream({ key, cert }: Certificate): Promise<Upstream> {
  const server = createServer({ key, cert }, async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const requested = Buffer.concat(pieces).toString()
    const { status, headers, body } = answerTo(request, requested)
    response.writeHead(status, { ...headers, trailer: 'x-checked' })
    // Writes chunks that end anywhere, also within the credential.
    for (let at = 0; at < body.length; at += 997) response.write(body.slice(at, at + 997))
    response.addTrailers({ 'x-checked': tokenIn(request) })
    response.end()
  })
  const sockets = new WebSocketServer({ noServer: true })
  sockets.on('headers', (lines, request) => lines.push(`x-request-id: ${tokenIn(request)}`))
  server.on('upgrade', (request, stream, head) =>
    sockets.handleUpgrade(request, stream, head, (socket) =>
      socket.on('message', (data) => {
        for (const event of socketEvents(String(data), tokenIn(request))) socket.send(JSON.stringify(event))
      }),
    ),
  )
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    origin: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

function tokenIn({ headers }: IncomingMessage): string {
  const sent = headers.authorization ?? headers['x-api-key'] ?? headers['x-goog-api-key'] ?? ''
  return String(sent).replace(/^\w+ /, '')
}

function scriptedText(requested: string, token: string) {
  const [, mode = 'ok', words = ''] = /MODE=(\w+) WORDS\(([^)]*)\)/.exec(requested) ?? []
  const all = Object.values(ENCODINGS).map((encode) => encode(token))
  return { mode, words, text: mode === 'quote' ? words : `${words} and your key is ${all.join(' or ')}.` }
}

function answerTo(request: IncomingMessage, requested: string): Answer {
  const token = tokenIn(request)
  const { mode, words, text } = scriptedText(requested, token)
  const json = { 'content-type': 'application/json' }
  const refuse = (status: number, name: string, message: string, headers = {}): Answer => ({
    status,
    headers: { ...json, ...headers },
    body: JSON.stringify({ type: 'error', message, error: { type: name, code: name, message } }),
  })
  const inHeader = `${words.slice(-1000)} ${token} ${Buffer.from(token).toString('base64')}`
  switch (mode) {
    case 'quote':
    case 'bad':
      return refuse(400, 'invalid_request_error', text)
    case 'missing':
      return refuse(404, 'not_found_error', text, { 'x-request-id': inHeader })
    case 'packed': {
      const { body, ...rest } = refuse(400, 'invalid_request_error', text)
      return { ...rest, headers: { ...json, 'content-encoding': 'gzip' }, body: gzipSync(body) }
    }
    case '401':
      return refuse(401, 'authentication_error', `no ${token.slice(0, 9)}… ${text}`, {
        'x-request-id': inHeader,
      })
    case '403':
      return refuse(403, `not ${token.slice(0, 9)}`, text, { 'x-request-id': inHeader })
    case 'error':
      return answerOf(request.url ?? '', requested, '', `no ${token.slice(0, 9)}… ${text}`)
    default: {
      const answer = answerOf(request.url ?? '', requested, text, undefined)
      const headers = { ...answer.headers, 'x-request-id': inHeader, etag: inHeader }
      return mode === 'headers' ? { ...answer, headers } : answer
    }
  }
}

/** Answers in the dialect of the path. `problem` is an error about the credential in the middle of the answer. */
function answerOf(path: string, requested: string, text: string, problem: string | undefined): Answer {
  const isStream =
    /"stream":true|:streamGenerateContent/.test(requested) || path.includes(':streamGenerateContent')
  const headers = { 'content-type': isStream ? 'text/event-stream' : 'application/json' }
  const events = (list: readonly { readonly type?: string }[]): Answer => ({
    status: 200,
    headers,
    body: list
      .map((each) => `${each.type ? `event: ${each.type}\n` : ''}data: ${JSON.stringify(each)}\n\n`)
      .join(''),
  })
  const whole = (value: unknown): Answer => ({ status: 200, headers, body: JSON.stringify(value) })
  const error = { type: 'authentication_error', code: 'invalid_api_key', message: problem }
  if (path.includes('/anthropic/')) {
    const usage = { input_tokens: 3, output_tokens: 4 }
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-x', usage }
    if (!isStream) return whole({ ...message, input_tokens: 3, content: [{ type: 'text', text }] })
    const begun = { type: 'message_start', message: { ...message, content: [] } }
    if (problem !== undefined) return events([begun, { type: 'error', error } as object])
    const delta = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }
    return events([begun, delta, { type: 'message_stop' }])
  }
  if (path.includes('/gemini/')) {
    const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 }
    const candidates = [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP', index: 0 }]
    if (isStream && problem !== undefined)
      return events([{ error: { code: 401, status: 'UNAUTHENTICATED', message: problem } } as object])
    return isStream ? events([{ candidates, usageMetadata } as object]) : whole({ candidates, usageMetadata })
  }
  if (path.endsWith('/responses')) {
    const list = responseEvents(text, problem === undefined ? undefined : error)
    return isStream
      ? events(list)
      : whole({ ...RESPONSE, output: [{ type: 'message', content: [{ text }] }] })
  }
  if (path.endsWith('/chat/completions')) {
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
    const common = { id: 'chatcmpl-1', created: 1, model: 'gpt-x' }
    if (!isStream) {
      const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }]
      return whole({ ...common, object: 'chat.completion', choices, usage })
    }
    if (problem !== undefined) return events([{ error } as object])
    const chunk = (choices: unknown[], more = {}) => ({ ...common, choices, ...more }) as object
    const { body, ...rest } = events([
      chunk([{ index: 0, delta: { content: text }, finish_reason: 'stop' }]),
      chunk([], { usage }),
    ])
    return { ...rest, body: `${body}data: [DONE]\n\n` }
  }
  return whole({ message: text })
}

const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'gpt-x',
  usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
}

function responseEvents(text: string, error: unknown): { readonly type: string }[] {
  const begun = { type: 'response.created', response: { id: 'resp_1' } }
  if (error !== undefined) return [begun, { type: 'error', error } as { type: string }]
  const delta = { type: 'response.output_text.delta', delta: text }
  return [begun, delta, { type: 'response.completed', response: RESPONSE } as { type: string }]
}

function socketEvents(requested: string, token: string): readonly unknown[] {
  const { mode, text } = scriptedText(requested, token)
  const error = (status: number, code: string) => [
    { type: 'error', status, error: { type: 'invalid_request_error', code, message: text } },
  ]
  switch (mode) {
    case 'bad':
      return error(400, 'invalid_prompt')
    case 'missing':
      return error(404, 'not_found')
    case '401':
      return error(401, 'token_expired')
    case '403':
      return error(403, token.slice(0, 9))
    case 'error':
      return responseEvents('', { code: 'invalid_api_key', message: text })
    default:
      return responseEvents(text, undefined)
  }
}
