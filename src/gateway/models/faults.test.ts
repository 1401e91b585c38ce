import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'
import { createServer as createRawServer, type TLSSocket } from 'node:tls'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import { selfSigned } from '../../../test/wire/certificate.ts'
import type { Account } from '../../accounts/account.ts'
import { tokenBudget } from '../../providers/dispatch.fixture.ts'
import {
  account,
  CERTIFICATE,
  type GatewayScene,
  gatewayScene,
  MemoryBroker,
  REAL_KEY,
} from '../gateway.fixture.ts'

const BODY = {
  model: 'claude-x',
  max_tokens: 2000,
  stream: true,
  messages: [{ role: 'user', content: 'hi' }],
}
const MESSAGE = {
  type: 'message',
  model: 'claude-x',
  content: [],
  usage: { input_tokens: 100, output_tokens: 30 },
}

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Serve = (request: IncomingMessage, response: ServerResponse) => void

async function listening(server: ReturnType<typeof createServer> | ReturnType<typeof createRawServer>) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => server.close())
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

async function scene(
  baseUrl: string,
  limits: Parameters<typeof gatewayScene>[0]['limits'] = {},
  login: Partial<Account> = {},
): Promise<GatewayScene> {
  const gateway = await gatewayScene({ broker: new MemoryBroker(account({ baseUrl, ...login })), limits })
  cleanups.push(() => gateway[Symbol.asyncDispose]())
  await tokenBudget(gateway.at, 1_000_000)
  return gateway
}

async function behind(
  serve: Serve,
  limits: Parameters<typeof gatewayScene>[0]['limits'] = {},
  login: Partial<Account> = {},
): Promise<GatewayScene> {
  const server = createServer({ ...CERTIFICATE }, (request, response) => {
    request.resume()
    request.once('end', () => serve(request, response))
  })
  cleanups.push(() => server.closeAllConnections())
  return scene(await listening(server), limits, login)
}

/** A server that sends these bytes to every client and disconnects. */
async function saying(bytes: string): Promise<GatewayScene> {
  const server = createRawServer({ ...CERTIFICATE }, (socket: TLSSocket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(bytes))
  })
  return scene(await listening(server))
}

const OK = 'HTTP/1.1 200 OK\r\n'
const EVENTS = `${OK}content-type: text/event-stream\r\n\r\n`
const CHUNKED = `${OK}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`
const CHUNK = `${JSON.stringify(MESSAGE).length.toString(16)}\r\n${JSON.stringify(MESSAGE)}\r\n`
const whole = (json: string) =>
  `${OK}content-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`
const START = `event: message_start\ndata: ${JSON.stringify({ type: 'message_start', message: MESSAGE })}\n\n`

const FLOOD = `data: ${JSON.stringify({ type: 'ping', filler: 'x'.repeat(60_000) })}\n\n`

/** Sends events as long as they are read. Calls `stalled` once nobody has read for a while. */
function flood(response: ServerResponse, stalled = () => {}): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
  const more = () => {
    while (!response.destroyed && response.write(FLOOD));
    if (response.destroyed) return
    const timer = setTimeout(stalled, 400)
    response.once('drain', () => {
      clearTimeout(timer)
      more()
    })
  }
  more()
}

/** Checks that everything is settled, that no hold remains, and that the last call has this outcome. */
async function expectEnded(gateway: GatewayScene, failure: string | undefined) {
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  expect(gateway.faults).toEqual([])
  const end = (await gateway.at.store.bodies()).findLast(
    ({ kind, phase }) => kind === 'provider_action' && phase === 'end',
  )
  if (failure === undefined) expect(end).toMatchObject({ status: 'passed' })
  else expect(end).toMatchObject({ status: 'failed', metadata: { failure } })
}

/** Checks that no provider was called, and that a denial names the rule. */
async function expectRefusal(gateway: GatewayScene, rule: string) {
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  const last = (await gateway.at.store.bodies()).at(-1)
  expect(last).toMatchObject({ kind: 'denial', status: 'blocked', decision: { effect: 'deny', rule } })
}

test.each([
  ['garbage instead of HTTP', 'hello, I am no web server\r\n\r\n', 'garbage'],
  ['garbage instead of events', `${EVENTS}<html>oops</html>\n\n`, 'garbage'],
  ['an event that is not JSON', `${EVENTS}data: {oops\n\n`, 'garbage'],
  ['an event of no type', `${EVENTS}data: {}\n\n`, 'garbage'],
  ['another kind of content', `${OK}content-type: text/html\r\ncontent-length: 2\r\n\r\nhi`, 'garbage'],
  [
    'an answer of millions of values',
    whole(`{"type":"message","x":[${'{},'.repeat(1_000_000)}1]}`),
    'garbage',
  ],
  [
    'an answer that is nested deeply',
    whole(`{"type":"message","x":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`),
    'garbage',
  ],
  [
    'an event of millions of values',
    `${EVENTS}data: {"type":"x","x":[${'1,'.repeat(1_000_000)}1]}\n\n`,
    'garbage',
  ],
  ['an event of thousands of lines', `${EVENTS}${':\n'.repeat(20_000)}${START}`, 'garbage'],
  ['an answer in pieces of a byte', `${CHUNKED}${'1\r\n \r\n'.repeat(20_000)}${CHUNK}0\r\n\r\n`, 'garbage'],
  [
    'one early hint after the other',
    `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100)}${EVENTS}${START}`,
    'garbage',
  ],
  ['JSON that is no answer', `${OK}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`, 'garbage'],
  [
    'half of a JSON answer',
    `${OK}content-type: application/json\r\ncontent-length: 9\r\n\r\n{"a"`,
    'broken_stream',
  ],
  [
    'less than its length',
    `${OK}content-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n: hi\n`,
    'broken_stream',
  ],
  [
    'compression that nobody asked for',
    `${OK}content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}`,
    'garbage',
  ],
  ['nothing', '', 'unreachable'],
  [
    'a redirect',
    'HTTP/1.1 302 Found\r\nlocation: https://evil.example/\r\ncontent-length: 0\r\n\r\n',
    'rejected',
  ],
  ['a head without end', `${OK}${'x-y: zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\r\n'.repeat(4000)}\r\n`, 'garbage'],
])(
  'when a provider sends %s, the client gets an error in the dialect, and the receipt is truthful',
  async (_, bytes, failure) => {
    const gateway = await saying(bytes)
    const response = await gateway.ask('/v1/messages', BODY)
    expect(response.status).toBe(502)
    expect(response.headers.get('location')).toBeNull()
    expect(await response.json()).toMatchObject({
      type: 'error',
      error: { message: expect.stringMatching(/^craik: /) },
    })
    await expectEnded(gateway, failure)
  },
)

/**
 * A sandbox can provoke these responses from any provider. They are not the provider's failure, and other sandboxes can
 * still call it.
 */
test.each([
  ['an answer with too many values', whole(`{"type":"message","x":[${'{},'.repeat(1_100_000)}1]}`)],
  ['an event that is too long', `${EVENTS}${START}data: ${'x'.repeat(17 * 1024 * 1024)}`],
  [
    'an error about what was asked, of a name that is not known',
    `${EVENTS}${START}event: error\ndata: {"type":"error","error":{"type":"image_too_large","message":"no"}}\n\n`,
  ],
])('three calls with %s do not open the breaker', async (_, bytes) => {
  const gateway = await saying(bytes)
  for (let call = 0; call < 4; call++) {
    const text = await (await gateway.ask('/v1/messages', BODY)).text()
    expect(text).toMatch(/too complex|too long|image_too_large/)
  }
})

test('buffered responses count as memory of the sandbox', async () => {
  const serve: Serve = (_, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).write(`{"x":"${'x'.repeat(600_000)}`)
  const gateway = await behind(serve, { heldBytes: 1_000_000, callMs: 20_000 })
  await gateway.port()
  const refused = await Promise.race([1, 2, 3].map(() => gateway.ask('/v1/messages', BODY)))
  expect(await refused.text()).toMatch(/too much data in open responses/)
})

test('a provider that sends thousands of empty events is aborted', async () => {
  const gateway = await saying(`${EVENTS}${START}${':\n\n'.repeat(40_000)}`)
  const response = await gateway.ask('/v1/messages', BODY)
  expect(await response.text()).toMatch(/event: error\ndata: .*too many small events.*\n\n$/)
  await expectEnded(gateway, 'garbage')
})

test.each([
  ['half an event', `${EVENTS}${START}data: {"type":"content_bl`],
  ['an end that comes too soon', `${EVENTS}${START}`],
])('%s: the client gets complete events only, and an error event as the last', async (_, bytes) => {
  const gateway = await saying(bytes)
  const response = await gateway.ask('/v1/messages', BODY)
  expect(response.status).toBe(200)
  const text = await response.text()
  const events = text.split('\n\n').filter((each) => each !== '')
  expect(events).toHaveLength(2)
  for (const each of events) expect(() => JSON.parse(each.slice(each.indexOf('data: ') + 6))).not.toThrow()
  expect(events[1]).toMatch(/^event: error\n/)
  await expectEnded(gateway, 'broken_stream')
})

test('garbage after a valid beginning is not forwarded, but replaced by an error event', async () => {
  const gateway = await behind((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
    setTimeout(() => response.end('data: nonsense\n\n'), 50)
  })
  const text = await (await gateway.ask('/v1/messages', BODY)).text()
  expect(text).not.toContain('nonsense')
  expect(text).toMatch(/event: error\ndata: .*dialect/)
  await expectEnded(gateway, 'garbage')
})

test('with an untrusted certificate, nothing is sent', async () => {
  const stranger = selfSigned(['127.0.0.1'])
  let requestCount = 0
  const server = createServer({ ...stranger }, () => requestCount++)
  const gateway = await scene(await listening(server))
  const response = await gateway.ask('/v1/messages', BODY)
  expect(response.status).toBe(502)
  expect(await response.text()).toContain('no connection')
  expect(requestCount).toBe(0)
  await expectEnded(gateway, 'unreachable')
})

test('a provider that never responds is aborted in time', async () => {
  const gateway = await behind(() => {}, { answerMs: 300 })
  const response = await gateway.ask('/v1/messages', BODY)
  expect(response.status).toBe(504)
  await expectEnded(gateway, 'timeout')
})

test('a provider that stops in the middle is aborted in time, with an error event', async () => {
  const serve: Serve = (_, response) =>
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
  const gateway = await behind(serve, { silenceMs: 300 })
  const text = await (await gateway.ask('/v1/messages', BODY)).text()
  expect(text).toMatch(/event: error\ndata: .*stalled/)
  await expectEnded(gateway, 'timeout')
})

test('an endless call is aborted in time', async () => {
  const serve: Serve = (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
    const ticking = setInterval(() => response.write('event: ping\ndata: {"type":"ping"}\n\n'), 20)
    response.once('close', () => clearInterval(ticking))
  }
  const gateway = await behind(serve, { callMs: 2_000 })
  const text = await (await gateway.ask('/v1/messages', BODY)).text()
  expect(text).toMatch(/event: error\ndata: .*in time/)
  await expectEnded(gateway, 'timeout')
})

test.each([
  ['what is not JSON', '{"model": oops}'],
  ['two caps', '{"model":"claude-x","max_tokens":5,"max_tokens":5000}'],
  ['a cap in another spelling', '{"model":"claude-x","max_tokens":5,"Max_Tokens":5000}'],
  ['a cap that is no number', '{"model":"claude-x","max_tokens":"many"}'],
  ['no model', '{"max_tokens":5}'],
  ['a model that is none', '{"model":"a\\nb","max_tokens":5}'],
  ['an array', '[]'],
  ['bytes that are no text', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
])('a request with %s is refused in the dialect, with a receipt', async (_, body) => {
  const gateway = await behind(() => {})
  const response = await gateway.ask('/v1/messages', '', { body: body as string })
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
  await expectRefusal(gateway, typeof body === 'string' ? 'gateway.malformed' : 'gateway.body.not_utf8')
})

test.each([
  ['said in its head', undefined],
  ['not said', 'chunked'],
])('a prompt that is too large, %s, is refused with 413 in the dialect', async (_, coding) => {
  const gateway = await behind(() => {}, { bodyBytes: 10_000 })
  const body = JSON.stringify({ ...BODY, system: 'x'.repeat(100_000) })
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from(body))
      controller.close()
    },
  })
  const init = coding === undefined ? { body } : { body: stream, duplex: 'half' as const }
  const response = await gateway.ask('/v1/messages', '', init as RequestInit)
  expect(response.status).toBe(413)
  expect(await response.json()).toMatchObject({ error: { type: 'request_too_large' } })
  await expectRefusal(gateway, 'gateway.body.too_large')
})

test('a small body that decompresses to a large one is refused', async () => {
  const gateway = await behind(() => {}, { bodyBytes: 10_000 })
  const body = gzipSync(JSON.stringify({ ...BODY, system: 'x'.repeat(1_000_000) }))
  const response = await gateway.ask('/v1/messages', '', { body, headers: { 'content-encoding': 'gzip' } })
  expect(response.status).toBe(413)
  await expectRefusal(gateway, 'gateway.body.too_large')
})

test('a compressed body, as Codex sends it, is forwarded uncompressed', async () => {
  let sent = ''
  const server = createServer({ ...CERTIFICATE }, (request, response) => {
    request.on('data', (piece) => {
      sent += piece
    })
    request.once('end', () =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(MESSAGE)),
    )
  })
  const gateway = await scene(await listening(server))
  const body = zstdCompressSync(JSON.stringify(BODY))
  const response = await gateway.ask('/v1/messages', '', { body, headers: { 'content-encoding': 'zstd' } })
  expect(await response.json()).toEqual(MESSAGE)
  expect(sent).toBe(JSON.stringify(BODY))
  await expectEnded(gateway, undefined)
})

test('a client that never finishes sending is refused in time', async () => {
  const gateway = await behind(() => {}, { bodyMs: 200 })
  const socket = await gateway.dial()
  socket.write('POST /v1/messages HTTP/1.1\r\nhost: craik\r\ncontent-length: 1000\r\n\r\n{"model":')
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/^HTTP\/1\.1 408 /)
  socket.destroy()
  await expectRefusal(gateway, 'gateway.body.too_slow')
})

test.each(['a client disconnects', 'the gateway closes'])(
  'reports no internal error when %s while Craik looks for its login',
  async (ending) => {
    class SlowBroker extends MemoryBroker {
      readonly asked = Promise.withResolvers<void>()
      override accounts(until?: AbortSignal): Promise<readonly Account[]> {
        const { promise, reject } = Promise.withResolvers<readonly Account[]>()
        until!.addEventListener('abort', () => reject(until!.reason))
        this.asked.resolve()
        return promise
      }
    }
    const broker = new SlowBroker(account({ baseUrl: 'https://127.0.0.1:1/v1' }))
    const gateway = await gatewayScene({ broker })
    cleanups.push(() => gateway[Symbol.asyncDispose]())
    const socket = await gateway.dial()
    socket.write('POST /v1/messages HTTP/1.1\r\nhost: craik\r\ncontent-length: 2\r\n\r\n{}')
    await broker.asked.promise
    if (ending === 'a client disconnects') {
      socket.destroy()
      await once(socket, 'close')
    }
    await gateway.gateway.close()
    expect(gateway.faults).toEqual([])
  },
)

test('a client that never reads is disconnected in time, and its provider with it', async () => {
  let closed: (() => void) | undefined
  const hungUp = new Promise<void>((resolve) => {
    closed = resolve
  })
  const serve: Serve = (_, response) => {
    response.once('close', () => closed!())
    flood(response)
  }
  const gateway = await behind(serve, { unreadMs: 500 })
  const socket = await gateway.dial()
  socket.pause()
  const body = JSON.stringify(BODY)
  socket.write(`POST /v1/messages HTTP/1.1\r\nhost: craik\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await hungUp
  socket.destroy()
  await expectEnded(gateway, 'cancelled')
})

test.each([
  ['the provider hangs up meanwhile', 100, {}, 'cancelled'],
  ['the call has lasted too long', 100, { callMs: 5_000 }, 'cancelled'],
  ['the provider hangs up, of a client that is slower than most', 60_000, {}, 'broken_stream'],
] as const)('with a client that reads too slowly: %s', async (_, slowClientMs, limits, failure) => {
  const stalled = Promise.withResolvers<ServerResponse>()
  const serve: Serve = (_, response) => flood(response, () => stalled.resolve(response))
  const gateway = await behind(serve, { ...limits, slowClientMs })
  const socket = await gateway.dial()
  socket.pause()
  const body = JSON.stringify(BODY)
  socket.write(`POST /v1/messages HTTP/1.1\r\nhost: craik\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  const response = await stalled.promise
  if ('callMs' in limits) await after(limits.callMs)
  else response.destroy()
  const { promise: isOver, resolve } = Promise.withResolvers<void>()
  let text = ''
  socket.on('data', (piece) => {
    text = (text + String(piece)).slice(-2_000)
    if (text.includes('event: error')) resolve()
  })
  socket.resume()
  await isOver
  socket.destroy()
  await expectEnded(gateway, failure)
})

test('a head that is too large, or invalid, is refused', async () => {
  const gateway = await behind(() => {})
  for (const [sent, status] of [
    [
      `GET /v1/models HTTP/1.1\r\nhost: craik\r\n${'x-bomb: zzzzzzzzzzzzzzzzzzzzzzzz\r\n'.repeat(4000)}\r\n`,
      431,
    ],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['GET /v1/models HTTP/1.1\r\n\r\n', 400],
    ['GET *oops HTTP/1.1\r\nhost: craik\r\n\r\n', 400],
    [
      'POST /v1/messages HTTP/1.1\r\nhost: craik\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
  ] as const) {
    const socket = await gateway.dial()
    socket.write(sent)
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    socket.destroy()
  }
})

test('a client that never finishes its head is disconnected in time', async () => {
  const gateway = await behind(() => {}, { headMs: 200 })
  const socket = await gateway.dial()
  socket.write('POST /v1/mess')
  await once(socket, 'close')
})

test('a flood of refusals is recorded with a count, not one by one', async () => {
  const gateway = await behind(() => {})
  for (let i = 0; i < 60; i++) await (await gateway.ask('/v1/messages', '[]')).text()
  await gateway.gateway.close()
  const denials = (await gateway.at.store.bodies()).filter(({ kind }) => kind === 'denial')
  expect(denials.length).toBeLessThan(30)
})

test('a login that its provider rejects is reported with its own program’s login command', async () => {
  const refuse: Serve = (_, response) => {
    response.writeHead(401, { 'content-type': 'application/json' }).end(`{"error":"not ${REAL_KEY}"}`)
  }
  const gateway = await behind(refuse, {}, { id: 'claude-code', kind: 'oauth' })
  const response = await gateway.ask('/v1/messages', BODY)
  const text = await response.text()
  expect(text).toContain('log in again:  claude /login')
  expect(text).not.toContain('craik secret')
  await expectEnded(gateway, 'unauthorized')
})

test.each([400, 429, 500, 503])(
  'replaces the words of an authentication error also when its status is %i',
  async (status) => {
    const error = { type: 'authentication_error', message: `not ${REAL_KEY.slice(0, 9)}` }
    const gateway = await behind((_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ type: 'error', error }))
    })
    const text = await (await gateway.ask('/v1/messages', BODY)).text()
    expect(text).toMatch(/craik: .*authentication_error/)
    expect(text).not.toContain(REAL_KEY.slice(0, 9))
    await expectEnded(gateway, 'unauthorized')
  },
)

test.each(['request-id', 'retry-after', 'anthropic-ratelimit-x', 'content-type'])(
  'a credential in the response header %s reaches no client',
  async (name) => {
    const gateway = await behind((_, response) => {
      const plain = { 'content-type': 'application/json' }
      const value = name === 'content-type' ? `application/json; x=${REAL_KEY}` : `it was ${REAL_KEY}`
      response.writeHead(200, { ...plain, [name]: value }).end(JSON.stringify(MESSAGE))
    })
    const response = await gateway.ask('/v1/messages', { ...BODY, stream: false })
    const message = JSON.stringify([[...response.headers], await response.text()])
    expect(response.status).toBe(200)
    expect(message).not.toContain(REAL_KEY)
    expect(response.headers.get(name)).toContain('x'.repeat(REAL_KEY.length))
    expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  },
)

test.each(['gzip', 'br'])(
  'an error response in %s, which cannot be masked, is replaced by Craik’s own words',
  async (coding) => {
    const gateway = await behind((_, response) => {
      response.writeHead(400, { 'content-type': 'application/json', 'content-encoding': coding })
      response.end(`{"error":{"message":"${REAL_KEY}"}}`)
    })
    const response = await gateway.ask('/v1/messages', BODY)
    const text = await response.text()
    expect(text).toContain('craik: ')
    expect(text).not.toContain(REAL_KEY)
    await expectEnded(gateway, 'rejected')
  },
)

test('an error about the credential in the middle of a stream is replaced by Craik’s own words', async () => {
  const error = {
    type: 'error',
    error: { type: 'authentication_error', message: `not ${REAL_KEY.slice(0, 9)}` },
  }
  const gateway = await behind((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('event: ping\ndata: {"type":"ping"}\n\n')
    response.end(`event: error\ndata: ${JSON.stringify(error)}\n\nevent: ping\ndata: {"type":"ping"}\n\n`)
  })
  const text = await (await gateway.ask('/v1/messages', BODY)).text()
  expect(text).toMatch(/^event: ping\n.*\n\nevent: error\ndata: .*craik: .*authentication_error.*\n\n$/)
  expect(text).not.toContain(REAL_KEY.slice(0, 9))
  await expectEnded(gateway, 'unauthorized')
})
