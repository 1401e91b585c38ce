import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as after } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { SocketAct } from '../../../../test/wire/responses-socket.ts'
import { CredentialMask, TURN_BYTES } from '../../../lib/credential-mask.ts'
import { balance } from '../../../providers/dispatch.fixture.ts'
import { REAL_KEY } from '../../gateway.fixture.ts'
import { CREATE, HELLO_ACT, socketScene } from './socket.fixture.ts'

const CREATED = JSON.stringify({ type: 'response.created', response: { id: 'resp_1' } })
const COMPLETED = JSON.stringify({ type: 'response.completed', response: { id: 'resp_1' } })
const raw = (...messages: (string | Buffer)[]): SocketAct => ({ kind: 'raw', messages })

test.each<[string, string, RegExp]>([
  ['no JSON', '{"type":', /is not JSON/],
  ['no object', '["response.create"]', /is not a JSON object/],
  ['a member twice', '{"type":"response.create","model":"a","model":"b"}', /contains a member twice/],
  [
    'a cap in an unusual spelling',
    '{"type":"response.create","model":"a","Max_Output_Tokens":1}',
    /unsupported spelling/,
  ],
  ['no type', '{"model":"a"}', /only supported message/],
  ['another message', '{"type":"response.steer","model":"a"}', /only supported message/],
  ['a request within', '{"type":"response.create","model":"a","response":{"model":"b"}}', /under response/],
  ['a stream of its own', '{"type":"response.create","model":"a","stream_id":"s"}', /stream_id/],
  ['an answer in the background', '{"type":"response.create","model":"a","background":true}', /background/],
  ['no model', '{"type":"response.create"}', /name of a model/],
])('%s is refused with an error, and the next message is answered', async (_, message, why) => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  expect(await client.ask(message)).toMatchObject([
    { type: 'error', status: 400, error: { message: expect.stringMatching(why) } },
  ])
  expect(scene.server.messages).toEqual([])
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(await scene.rules()).toEqual(['gateway.malformed'])
})

test('a message in fragments is one message', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  const text = JSON.stringify(CREATE)
  client.socket.send(text.slice(0, 10), { fin: false })
  client.socket.ping()
  client.socket.send(text.slice(10, 20), { fin: false })
  client.socket.send(text.slice(20), { fin: true })
  expect((await client.answer()).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(scene.server.messages.map((message) => message.raw)).toEqual([text])
})

test('pings in one burst are handled one per turn of the event loop, so that others get their turns', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  const PINGS = 2_000
  let turns = 0
  const count = () => {
    turns++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  const { _socket: stream } = client.socket as unknown as { readonly _socket: Duplex }
  // As one chunk, as the boundary delivers them.
  stream.cork()
  for (let at = 0; at < PINGS; at++) client.socket.ping()
  client.socket.send('{"type":')
  stream.uncork()
  expect(await client.answer()).toMatchObject([{ type: 'error', status: 400 }])
  clearImmediate(counting)
  expect(turns).toBeGreaterThanOrEqual(PINGS)
})

test('a binary message is refused, and the connection closed', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  client.socket.send(Buffer.from(JSON.stringify(CREATE)), { binary: true })
  expect(await client.answer()).toMatchObject([{ type: 'error', status: 400 }])
  expect(await client.closed).toBe(1003)
  expect(await scene.rules()).toEqual(['gateway.body.not_text'])
})

test.each([
  ['too large', { bodyBytes: 1000 }, 'x'.repeat(2000), 1009, 'gateway.body.too_large'],
  ['no UTF-8', {}, Buffer.from([0x22, 0xff, 0x22]), 1007, 'gateway.body.not_utf8'],
])('a message that is %s closes the connection', async (_, limits, message, code, rule) => {
  const scene = await socketScene([HELLO_ACT], { limits })
  const client = await scene.connect()
  client.socket.send(message, { binary: false })
  expect(await client.closed).toBe(code)
  expect(await scene.rules()).toEqual([rule])
  expect(scene.server.messages).toEqual([])
})

test('a message that never ends, or uses the memory of others, is aborted', async () => {
  const slow = await socketScene([HELLO_ACT], { limits: { bodyMs: 100 } })
  const client = await slow.connect()
  client.socket.send('{"type"', { fin: false })
  expect(await client.answer()).toMatchObject([{ type: 'error', status: 408 }])
  expect(await slow.rules()).toEqual(['gateway.body.too_slow'])
  const large = await socketScene([HELLO_ACT], { limits: { heldBytes: 10_000 } })
  const many = [await large.connect(), await large.connect()]
  for (const each of many) each.socket.send('x'.repeat(6000), { fin: false })
  await Promise.any(many.map((each) => each.answer()))
  expect(await large.rules()).toEqual(['gateway.body.no_room'])
})

test.each([
  [200, 'cancelled'],
  [60_000, 'timeout'],
])('a call with a client that does not read for over %i ms is %s', async (slowClientMs, failure) => {
  const scene = await socketScene([{ kind: 'flood' }], { limits: { callMs: 2_000, slowClientMs } })
  const client = await scene.connect()
  client.socket.send(JSON.stringify(CREATE))
  await client.next()
  client.socket.pause()
  await after(2_500)
  client.socket.terminate()
  expect((await scene.ends()).at(-1)).toMatchObject({ failure })
})

test('long messages are masked in parts, and arrive complete and in order', async () => {
  const masked = vi.spyOn(CredentialMask.prototype, 'maskBytes')
  const delta = (text: string) => JSON.stringify({ type: 'response.output_text.delta', delta: text })
  const long = `${'QUJD'.repeat(500_000)} ${REAL_KEY} end`
  const scene = await socketScene([
    raw(CREATED, delta(long), delta('short'), delta(long), COMPLETED),
    HELLO_ACT,
  ])
  const client = await scene.connect()
  const events = await client.ask(CREATE)
  const hidden = `${'QUJD'.repeat(500_000)} ${'x'.repeat(REAL_KEY.length)} end`
  expect(events.map((event) => event.delta)).toEqual([undefined, hidden, 'short', hidden, undefined])
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  const sizes = masked.mock.calls.map(([bytes]) => bytes.length)
  masked.mockRestore()
  expect(sizes.length).toBeGreaterThan(10)
  expect(Math.max(...sizes)).toBeLessThan(TURN_BYTES + 10_000)
})

/** JSON.parse accepts it, and JSON.stringify does not. */
const DEEP_ERROR = `{"type":"error","status":400,"error":${'['.repeat(100_000)}${']'.repeat(100_000)}}`

test.each<[string, SocketAct, string, 'error' | 'response.failed']>([
  ['garbage', raw('<html>'), 'garbage', 'error'],
  ['an event without a type', raw('{}'), 'garbage', 'error'],
  ['a binary message', raw(Buffer.from('{"type":"response.created"}')), 'garbage', 'error'],
  ['garbage in the middle', raw(CREATED, 'oops'), 'garbage', 'response.failed'],
  ['an error nested deeper than the stack', raw(DEEP_ERROR), 'garbage', 'error'],
  ['half of an answer, and breaks', { kind: 'break', text: 'half' }, 'broken_stream', 'response.failed'],
])(
  'when a provider sends %s, the client gets an error event, and the receipt is truthful',
  async (_, act, failure, type) => {
    const scene = await socketScene([act, HELLO_ACT])
    const client = await scene.connect()
    const events = await client.ask(CREATE)
    expect(events.at(-1)).toMatchObject({ type })
    expect(JSON.stringify(events.at(-1))).toContain('craik: calling the model at')
    const { spent } = await balance(scene.gateway.at)
    expect(spent).toBeGreaterThanOrEqual(JSON.stringify(CREATE).length)
    // The connection with the fault is not reused.
    expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
    expect(scene.server.upgrades).toHaveLength(2)
    expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure }, { status: 'passed' }])
  },
)

test.each([
  [429, 'rate_limit_exceeded', 'rate_limited'],
  [400, 'context_length_exceeded', 'rejected'],
])('a provider’s own error (%i) is forwarded unchanged, and costs nothing', async (status, code, failure) => {
  const reply = { type: 'error', status, error: { type: 'x', code, message: 'no more' } }
  const scene = await socketScene([raw(JSON.stringify(reply))])
  const client = await scene.connect()
  expect(await client.ask(CREATE)).toEqual([reply])
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { status: 'failed', failure }])
  expect(await balance(scene.gateway.at)).toEqual({ spent: 0, held: 0 })
})

test('a credential in a message is masked, and the call continues', async () => {
  const scene = await socketScene([raw(CREATED, `{"type":"x","a":"${REAL_KEY}"}`, COMPLETED)])
  const client = await scene.connect()
  const events = await client.ask(CREATE)
  expect(events).toContainEqual({ type: 'x', a: 'x'.repeat(REAL_KEY.length) })
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { status: 'passed' }])
})

test('a credential in an error is masked, and a part of it passes', async () => {
  const error = { type: 'invalid_request_error', message: `${REAL_KEY} ${REAL_KEY.slice(0, -1)}` }
  const scene = await socketScene([raw(JSON.stringify({ type: 'error', status: 400, error }))])
  const client = await scene.connect()
  const message = `${'x'.repeat(REAL_KEY.length)} ${REAL_KEY.slice(0, -1)}`
  expect(await client.ask(CREATE)).toEqual([{ type: 'error', status: 400, error: { ...error, message } }])
})

test.each([401, 403])(
  'an error about the credential (%i) is replaced by Craik’s own words',
  async (status) => {
    const error = {
      type: 'invalid_request_error',
      code: 'token_expired',
      message: `not ${REAL_KEY.slice(0, 9)}`,
    }
    const scene = await socketScene([
      raw(JSON.stringify({ type: 'error', status, error, headers: { a: 'b' } })),
    ])
    const client = await scene.connect()
    const [reported, ...more] = await client.ask(CREATE)
    expect(more).toEqual([])
    expect(reported).toMatchObject({ type: 'error', status, error: { code: 'token_expired' } })
    expect(JSON.stringify(reported)).not.toContain(REAL_KEY.slice(0, 9))
    expect(reported).not.toHaveProperty('headers')
    expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure: 'unauthorized' }])
  },
)

test('a credential in the head of a response is masked', async () => {
  const scene = await socketScene([HELLO_ACT], { upgrades: [{ headers: { 'x-request-id': REAL_KEY } }] })
  const client = await scene.connect()
  expect((await client.upgraded)['x-request-id']).toBe('x'.repeat(REAL_KEY.length))
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
})

test.each<[string, SocketAct, string, string]>([
  ['never answers', { kind: 'silence' }, 'answerMs', 'error'],
  ['stops in the middle', { kind: 'hang', text: 'half' }, 'silenceMs', 'response.failed'],
  ['does not come to an end', { kind: 'hang', text: 'half' }, 'callMs', 'response.failed'],
])('a provider that %s is aborted in time', async (_, act, limit, type) => {
  const scene = await socketScene([act], { limits: { [limit]: 200 } })
  const client = await scene.connect()
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type })
  await scene.server.hangUp
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure: 'timeout' }])
})

test('a client that disconnects ends the provider’s work, and is settled as cancelled', async () => {
  const scene = await socketScene([{ kind: 'hang', text: 'half' }])
  const client = await scene.connect()
  client.socket.send(JSON.stringify(CREATE))
  await client.next()
  client.socket.terminate()
  await scene.server.hangUp
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure: 'cancelled' }])
  expect((await balance(scene.gateway.at)).spent).toBeGreaterThanOrEqual(JSON.stringify(CREATE).length)
})

test('a client that never reads stops the provider, and is disconnected in time', async () => {
  const scene = await socketScene([{ kind: 'flood' }], { limits: { unreadMs: 600 } })
  const client = await scene.connect()
  client.socket.send(JSON.stringify(CREATE))
  await client.next()
  client.socket.pause()
  await scene.server.hangUp
  // Slightly more than the kernel buffers on the way. Without back-pressure it would be hundreds of megabytes.
  expect(scene.server.flooded()).toBeLessThan(30_000_000)
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure: 'cancelled' }])
})

test('pings are answered, and a client that ignores the gateway’s pings is disconnected', async () => {
  const scene = await socketScene([HELLO_ACT], { limits: { pingMs: 100 } })
  const client = await scene.connect()
  const pong = new Promise((answered) => client.socket.once('pong', answered))
  client.socket.ping('are you there')
  expect(String(await pong)).toBe('are you there')
  const socket = connect(await scene.gateway.port(), '127.0.0.1')
  const gone = new Promise((closed) => socket.once('close', closed))
  socket.on('error', () => {}).resume()
  socket.write(
    'GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  )
  await gone
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
})

test('a connection without requests is closed, and its provider connection too', async () => {
  const scene = await socketScene([HELLO_ACT], { limits: { socketIdleMs: 200 } })
  const client = await scene.connect()
  await client.ask(CREATE)
  expect(await client.closed).toBe(1001)
  await scene.server.hangUp
})

test('more concurrent calls than the limit are refused over WebSocket as well', async () => {
  const scene = await socketScene([{ kind: 'silence' }], { limits: { requests: 1 } })
  const [first, second] = [await scene.connect(), await scene.connect()]
  first.socket.send(JSON.stringify(CREATE))
  await expect.poll(() => scene.server.messages.length).toBe(1)
  expect(await second.ask(CREATE)).toMatchObject([{ type: 'error', status: 429 }])
})

test('closing the gateway ends open calls with an event, and settles them', async () => {
  const scene = await socketScene([{ kind: 'hang', text: 'half' }])
  const client = await scene.connect()
  const events = client.ask(CREATE)
  await expect.poll(() => scene.server.messages.length).toBe(1)
  await after(50)
  await scene.gateway.gateway.close()
  expect((await events).at(-1)).toMatchObject({ type: 'response.failed' })
  expect(await scene.ends()).toMatchObject([{ status: 'passed' }, { failure: 'cancelled' }])
})

test.each([
  ['no key', 'sec-websocket-version: 13\r\n'],
  ['another version', 'sec-websocket-version: 8\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'],
  [
    'a body',
    'content-length: 2\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n',
  ],
])('a handshake with %s is refused, and no provider is called', async (_, headers) => {
  const scene = await socketScene([HELLO_ACT])
  const socket = connect(await scene.gateway.port(), '127.0.0.1')
  socket.write(
    `GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n${headers}\r\n`,
  )
  const answer = await new Promise((came) => socket.once('data', came))
  expect(String(answer)).toMatch(/^HTTP\/1\.1 400 /)
  socket.destroy()
  expect(scene.server.upgrades).toEqual([])
})

test('the memory of messages is released in every case, also when their connections close', async () => {
  const scene = await socketScene([HELLO_ACT], { limits: { heldBytes: 2000 } })
  for (let round = 0; round < 5; round++) {
    const client = await scene.connect()
    await client.ask('{"malformed"')
    for (let at = 0; at < 5; at++)
      expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
    client.socket.send('x'.repeat(500), { fin: false })
    client.socket.terminate()
  }
  expect(await scene.ends()).toHaveLength(5 + 25)
})

test('a message that arrives with the handshake is answered like any other', async () => {
  const scene = await socketScene([HELLO_ACT])
  const socket = connect(await scene.gateway.port(), '127.0.0.1')
  const handshake =
    'GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'
  const text = Buffer.from('{"type":"response.create","model":"gpt-x","max_output_tokens":64,"input":"hi"}')
  // With a mask of zeros, a message's masked bytes equal its own.
  const frame = Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), text])
  let output = ''
  const completed = new Promise<void>((done) => {
    socket.on('data', (piece) => {
      output += String(piece)
      if (output.includes('response.completed')) done()
    })
  })
  socket.write(Buffer.concat([Buffer.from(handshake), frame]))
  await completed
  expect(output).toMatch(/^HTTP\/1\.1 101 /)
  socket.destroy()
  await scene.server.hangUp
  expect(scene.server.messages.map((message) => message.raw)).toEqual([String(text)])
})
