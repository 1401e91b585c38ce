/** Bodies of one sandbox do not delay other sandboxes, and are read only when nothing refuses their call. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import { setQuota } from '../../providers/ledger/budgets-and-quotas.ts'
import { account, CERTIFICATE, type GatewayScene, gatewayScene, MemoryBroker } from '../gateway.fixture.ts'
import { BodyScanner } from './body-scanner.ts'

const MESSAGE = { type: 'message', model: 'm', content: [], usage: { input_tokens: 1, output_tokens: 1 } }
const HANGS = new URL('./scan-worker.fixture.ts', import.meta.url)
/** Too long for the main thread. */
const FILLER = 'x'.repeat(300_000)
const body = (system = FILLER) => JSON.stringify({ model: 'm', max_tokens: 100, system, messages: [] })
const never = new AbortController().signal

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Serve = (request: IncomingMessage, response: ServerResponse, text: string) => void

const whole: Serve = (_, response) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(MESSAGE))

async function scene(
  options: Partial<Parameters<typeof gatewayScene>[0]> = {},
  serve = whole,
): Promise<GatewayScene> {
  const server = createServer({ ...CERTIFICATE }, async (request, response) => {
    let text = ''
    for await (const piece of request) text += piece
    serve(request, response, text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => server.close())
  const baseUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const gateway = await gatewayScene({ broker: new MemoryBroker(account({ baseUrl })), ...options })
  cleanups.push(() => gateway[Symbol.asyncDispose]())
  return gateway
}

const statusAndType = async (response: Response) => [
  response.status,
  ((await response.json()) as { error?: { type: string } }).error?.type,
]
const rules = async ({ at }: GatewayScene) =>
  (await at.store.bodies()).flatMap(({ decision }) => (decision?.effect === 'deny' ? [decision.rule] : []))

test('a body that cannot be scanned in time is stopped at its deadline, without effect on other sandboxes', async () => {
  let finish = () => {}
  const stream: Serve = (_, response, text) => {
    if (!text.includes('stream')) return whole(_, response, text)
    const events = ['message_start', 'message_stop'].map(
      (type) => `event: ${type}\ndata: ${JSON.stringify({ type, message: MESSAGE })}\n\n`,
    )
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(events[0])
    finish = () => void response.end(events[1])
  }
  const gateway = await scene({ scanWorker: HANGS, limits: { scanMs: 1_000 } }, stream)
  const sandboxId = 'sandbox-2'
  const streaming = await gateway.ask('/v1/messages', body(`stream ${FILLER}`), { sandboxId })
  let isSettled = false
  const hanging = gateway.ask('/v1/messages', body(`hang here ${FILLER}`)).finally(() => {
    isSettled = true
  })
  const neighbour = await gateway.ask('/v1/messages', body(), { sandboxId })
  expect([neighbour.status, isSettled]).toEqual([200, false])
  expect(await statusAndType(await hanging)).toEqual([413, 'request_too_large'])
  finish()
  expect(await streaming.text()).toContain('message_stop')
  // A new thread reads the next body of the same sandbox.
  expect((await gateway.ask('/v1/messages', body())).status).toBe(200)
  expect(await rules(gateway)).toEqual(['gateway.body.scan_slow'])
})

test('when a thread dies, its body fails and the next thread reads the waiting ones', async () => {
  const gateway = await scene({ scanWorker: HANGS })
  await gateway.port()
  const [dying, waiting] = await Promise.all([
    gateway.ask('/v1/messages', body(`die here ${FILLER}`)),
    gateway.ask('/v1/messages', body()),
  ])
  expect([dying.status, waiting.status].sort()).toEqual([200, 503])
})

test('threads that are terminated again and again are not restarted for a while', async () => {
  const gateway = await scene({ scanWorker: HANGS })
  for (let at = 0; at < 3; at++)
    expect((await gateway.ask('/v1/messages', body(`die here ${FILLER}`))).status).toBe(503)
  const refused = await gateway.ask('/v1/messages', body())
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '60'])
  expect(await rules(gateway)).toEqual(Array.from({ length: 4 }, () => 'gateway.body.scan_failed'))
  // Short bodies need no thread, and another sandbox has its own thread.
  expect((await gateway.ask('/v1/messages', body('short'))).status).toBe(200)
  expect((await gateway.ask('/v1/messages', body(), { sandboxId: 'sandbox-2' })).status).toBe(200)
})

test('the thread has no data except the bodies it gets, and returns the same bytes', async () => {
  process.env.A_SECRET_OF_THE_SUPERVISOR = 'must stay here'
  const scanner = new BodyScanner({ scanMs: 10_000, scanWaitMs: 10_000, scanIdleMs: 10_000 }, HANGS)
  cleanups.push(() => {
    delete process.env.A_SECRET_OF_THE_SUPERVISOR
    return scanner.close()
  })
  const terms = { coding: 'identity', maxBytes: 1e6, lookInto: {} } as const
  const scanned = await scanner.scan([Buffer.from(body())], terms, never)
  expect(scanned).toMatchObject({ bytes: Buffer.from(body()) })
})

test.each([1, 3, 300, 20_000])('a body in %i chunks is returned complete', async (count) => {
  const scanner = new BodyScanner({ scanMs: 10_000, scanWaitMs: 10_000, scanIdleMs: 10_000 }, HANGS)
  cleanups.push(() => scanner.close())
  const terms = { coding: 'identity', maxBytes: 1e6, lookInto: {} } as const
  const whole = Buffer.from(body('x'.repeat(100_000)))
  const size = Math.ceil(whole.length / count)
  const pieces = Array.from({ length: count }, (_, at) =>
    Buffer.from(whole.subarray(at * size, (at + 1) * size)),
  )
  expect(await scanner.scan(pieces, terms, never)).toMatchObject({ bytes: whole, members: {} })
})

test('a body with a disconnected client delays nobody', async () => {
  const scanner = new BodyScanner({ scanMs: 60_000, scanWaitMs: 60_000, scanIdleMs: 10_000 }, HANGS)
  cleanups.push(() => scanner.close())
  const terms = { coding: 'identity', maxBytes: 1e6, lookInto: {} } as const
  const client = new AbortController()
  const hanging = scanner.scan([Buffer.from(body(`hang here ${FILLER}`))], terms, never)
  const waiting = scanner.scan([Buffer.from(body())], terms, client.signal)
  client.abort()
  expect(await waiting).toBe('gone')
  scanner.abandon()
  expect(await hanging).toBe('gone')
  expect(await scanner.scan([Buffer.from(body())], terms, never)).toMatchObject({ members: {} })
})

const NUMBERS = `{"model":"m","x":[${'1,'.repeat(2_000_000)}1]}`
test.each([
  ['that shrinks too well', gzipSync(NUMBERS), 'gzip', [413, 'request_too_large'], 'gateway.body.ratio'],
  [
    'that shrinks too well',
    zstdCompressSync(NUMBERS),
    'zstd',
    [413, 'request_too_large'],
    'gateway.body.ratio',
  ],
  ['with too many values', NUMBERS, 'identity', [400, 'invalid_request_error'], 'gateway.malformed'],
  ['in another coding', body(), 'br', [415, 'api_error'], 'gateway.body.coding'],
  ['that is no gzip', body(), 'gzip', [415, 'api_error'], 'gateway.body.coding'],
  [
    'that is no UTF-8',
    Buffer.alloc(20_000, 0xff),
    'identity',
    [400, 'invalid_request_error'],
    'gateway.body.not_utf8',
  ],
])('a body %s is refused in the dialect, with a receipt', async (_, sent, coding, expected, rule) => {
  const gateway = await scene()
  const headers = { 'content-encoding': coding }
  expect(
    await statusAndType(await gateway.ask('/v1/messages', '', { body: sent as string, headers })),
  ).toEqual(expected)
  await gateway.gateway.close()
  expect(await rules(gateway)).toEqual([rule])
})

/** Sends the head of a request without its body. */
async function head(gateway: GatewayScene, bytes: number, ...lines: readonly string[]): Promise<Socket> {
  const socket = await gateway.dial()
  cleanups.push(() => void socket.destroy())
  const all = ['POST /v1/messages HTTP/1.1', 'host: craik', `content-length: ${bytes}`, ...lines]
  socket.setEncoding('latin1').write(`${all.join('\r\n')}\r\n\r\n`)
  return socket
}

async function firstLine(socket: Socket): Promise<string> {
  const [text] = (await once(socket, 'data')) as [string]
  return text.split('\r\n')[0]!
}

/** With or without an error. */
const waitForClose = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))

test('one body over 1 MiB is read at a time; others wait, then get 429', async () => {
  const gateway = await scene({ limits: { scanWaitMs: 300 } })
  const large = body('x'.repeat(2_000_000))
  const first = await head(gateway, large.length)
  first.write(large.slice(0, 1_500_000))
  // A request gets its turn once it has sent its head. A small one needs no turn.
  expect((await gateway.ask('/v1/messages', body())).status).toBe(200)
  const second = await gateway.ask('/v1/messages', large)
  expect([second.headers.get('retry-after'), ...(await statusAndType(second))]).toEqual([
    '1',
    429,
    'rate_limit_error',
  ])
  expect((await gateway.ask('/v1/messages', large, { sandboxId: 'sandbox-2' })).status).toBe(200)
  first.write(large.slice(1_500_000))
  expect(await firstLine(first)).toBe('HTTP/1.1 200 OK')
  expect((await gateway.ask('/v1/messages', large)).status).toBe(200)
})

const noQuota = ({ at }: GatewayScene) =>
  setQuota(
    at.store,
    {
      scope_kind: 'provider',
      scope_ref: 'provider_anthropic',
      requests_per_minute: 0,
      tokens_per_minute: null,
      concurrent: null,
    },
    POLICY_OPERATOR,
  )

test.each<[string, number, string, string[], object, (gateway: GatewayScene) => Promise<unknown>]>([
  ['a credential of somebody else', 401, 'gateway.credential', ['x-api-key: a-key'], {}, async () => {}],
  ['no grant', 403, 'default_deny', [], { grants: [] }, async () => {}],
  ['no login', 403, 'gateway.no_credentials', [], { credentials: 'none' }, async () => {}],
  ['no quota left', 429, 'quota.requests_per_minute', [], {}, noQuota],
])(
  'a caller with %s is refused before any of its body is read',
  async (_, status, rule, lines, options, prepare) => {
    const gateway = await scene(options)
    await prepare(gateway)
    expect(await firstLine(await head(gateway, 1_000_000, ...lines))).toMatch(
      new RegExp(`^HTTP/1.1 ${status} `),
    )
    const waiting = await head(gateway, 1_000_000, 'expect: 100-continue', ...lines)
    expect(await firstLine(waiting)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    await once(waiting, 'close')
    expect((await rules(gateway)).filter((each) => each !== rule)).toEqual([])
  },
)

test('a client that waits for 100 Continue gets it when the call passes every check', async () => {
  const gateway = await scene()
  const waiting = await head(gateway, body().length, 'expect: 100-continue')
  expect(await firstLine(waiting)).toBe('HTTP/1.1 100 Continue')
  waiting.write(body())
  expect(await firstLine(waiting)).toBe('HTTP/1.1 200 OK')
})

test('a body in a million chunks of one byte is refused after a few thousand of them', async () => {
  const gateway = await scene()
  const socket = await gateway.dial()
  cleanups.push(() => void socket.destroy())
  socket.on('error', () => {})
  const lines = ['POST /v1/messages HTTP/1.1', 'host: craik', 'transfer-encoding: chunked']
  socket.setEncoding('latin1').write(`${lines.join('\r\n')}\r\n\r\n${'1\r\n \r\n'.repeat(1_000_000)}`)
  expect(await firstLine(socket)).toMatch(/^HTTP\/1\.1 400 /)
  await waitForClose(socket)
  expect(await rules(gateway)).toEqual(['gateway.body.pieces'])
})

test('a client that keeps sending after a refusal is disconnected', async () => {
  const gateway = await scene({ grants: [], limits: { discardBytes: 100_000, discardMs: 60_000 } })
  const socket = await head(gateway, 3_000_000_000)
  expect(await firstLine(socket)).toMatch(/^HTTP\/1\.1 403 /)
  const sending = setInterval(() => socket.write(FILLER), 5)
  await waitForClose(socket)
  clearInterval(sending)
  const idle = await scene({ grants: [], limits: { discardMs: 200 } })
  const silent = await head(idle, 1_000)
  expect(await firstLine(silent)).toMatch(/^HTTP\/1\.1 403 /)
  await waitForClose(silent)
})
