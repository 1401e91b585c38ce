import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../lib/ids.ts'
import { packageFile } from '../lib/package-files.ts'
import { connectUnixSocket } from '../lib/unix-socket.ts'
import { API_LIMITS, BYTES_TYPE } from './api/api-constants.ts'
import { type ApiScene, apiScene } from './operator.fixture.ts'

let api: ApiScene
let id: string
beforeAll(async () => {
  api = await apiScene()
  id = await api.create('first')
})
afterAll(() => api[Symbol.asyncDispose]())

const JSON_TYPE = { 'content-type': 'application/json' }
const JOB = newId('job', 0)
const UPLOAD = newId('job', 1)

/** Every route with a valid and an invalid request. `S` stands for a sandbox, `N` for a snapshot. */
const ROUTES: readonly {
  readonly route: string
  readonly good?: {
    readonly query?: string
    readonly body?: unknown
    readonly bytes?: string
    readonly status?: number
  }
  readonly bad?: {
    readonly path?: string
    readonly query?: string
    readonly body?: unknown
    readonly bytes?: string
  }
}[] = [
  { route: 'GET /api/version', good: {} },
  { route: 'GET /api/supervisor', good: {} },
  {
    route: 'PUT /api/accounts/environment',
    good: { body: { keys: { OPENAI_API_KEY: 'made-up' } } },
    bad: { body: { keys: { GITHUB_TOKEN: 'made-up' } } },
  },
  {
    route: 'PUT /api/supervisor/programs',
    good: { body: { programs: { gh: ['/usr/bin/gh'] } } },
    bad: { body: { programs: { bwrap: ['/usr/bin/bwrap'] } } },
  },
  { route: 'POST /api/supervisor/drain', good: { status: 202 } },
  { route: 'GET /api/sandboxes', good: {} },
  {
    route: 'POST /api/sandboxes',
    good: { body: { isolation: 'none' }, status: 403 },
    bad: { body: { isolation: 'magic' } },
  },
  { route: 'GET S', good: {}, bad: { path: '/api/sandboxes/%20' } },
  { route: 'GET S/events', good: {}, bad: { query: 'follow=maybe' } },
  { route: 'POST S/exec', good: { body: { argv: ['true'] } }, bad: { body: { argv: [] } } },
  { route: 'GET S/jobs', good: {}, bad: { path: '/api/sandboxes/%20/jobs' } },
  {
    route: `PUT S/jobs/${JOB}`,
    good: { body: { kind: 'exec', argv: ['cat'], stdin: true }, status: 201 },
    bad: { body: { kind: 'exec' } },
  },
  { route: `GET S/jobs/${JOB}`, good: {}, bad: { path: 'S/jobs/other' } },
  { route: `POST S/jobs/${JOB}/ack`, good: { body: { position: 0 } }, bad: { body: { position: -1 } } },
  {
    route: `POST S/jobs/${JOB}/resize`,
    good: { body: { cols: 80, rows: 24 }, status: 409 },
    bad: { body: { cols: 0, rows: 1 } },
  },
  {
    route: `POST S/jobs/${JOB}/input`,
    good: { query: 'offset=0&end=1', bytes: 'hello\n' },
    bad: { query: 'offset=x', bytes: '' },
  },
  { route: `GET S/jobs/${JOB}/output`, good: { query: 'after=0' }, bad: { query: 'after=-1' } },
  {
    route: `POST S/jobs/${JOB}/signal`,
    good: { body: { signal: 'SIGTERM' }, status: 409 },
    bad: { body: { signal: '9' } },
  },
  { route: `DELETE S/jobs/${JOB}`, good: {}, bad: { path: 'S/jobs/other' } },
  {
    route: 'PUT S/files/content',
    good: { query: `path=a.txt&upload=${UPLOAD}&bytes=3`, bytes: 'abc' },
    bad: { query: 'path=a.txt', bytes: '' },
  },
  { route: 'GET S/files/upload', good: { query: `upload=${UPLOAD}` }, bad: { query: 'upload=..' } },
  { route: 'GET S/files/content', good: { query: 'path=a.txt' }, bad: { query: 'offset=0' } },
  { route: 'GET S/files/stat', good: { query: 'path=a.txt' }, bad: { query: '' } },
  { route: 'GET S/files/list', good: { query: 'path=.' }, bad: { query: 'path=.&limit=0' } },
  { route: 'GET S/files/watch', bad: { query: 'path=.&recursive=yes' } },
  { route: 'POST S/files/mkdir', good: { body: { path: 'd' } }, bad: { body: { path: '' } } },
  {
    route: 'POST S/files/move',
    good: { body: { from: 'a.txt', to: 'd/b.txt' } },
    bad: { body: { from: 'a' } },
  },
  {
    route: 'POST S/files/remove',
    good: { body: { path: 'd', recursive: true } },
    bad: { body: { path: 'a\0b' } },
  },
  { route: 'GET S/processes', good: {}, bad: { path: '/api/sandboxes/%20/processes' } },
  { route: 'POST S/processes/1/signal', bad: { body: { signal: 'TERM' } } },
  { route: 'POST S/logins', good: {}, bad: { path: '/api/sandboxes/%20/logins' } },
  { route: 'GET S/stats', good: {}, bad: { path: '/api/sandboxes/%20/stats' } },
  { route: 'GET S/ports/80', bad: {} },
  { route: 'POST S/stop', good: { body: { grace_ms: 0 } }, bad: { body: { grace_ms: -1 } } },
  { route: 'POST S/pause', bad: { path: '/api/sandboxes/%20/pause' }, good: { status: 409 } },
  { route: 'POST S/resume', good: {}, bad: { path: '/api/sandboxes/%20/resume' } },
  {
    route: 'POST S/snapshot',
    good: { body: { name: 'kept' }, status: 201 },
    bad: { body: { name: 'not a name' } },
  },
  { route: 'POST S/fork', good: { body: { from: 'nonesuch' }, status: 404 }, bad: { body: { from: '' } } },
  { route: 'GET /api/limits', good: {} },
  { route: 'GET /api/snapshots', good: {} },
  { route: 'GET N', good: {}, bad: { path: '/api/snapshots/%20' } },
  { route: 'GET N/bundle', good: {}, bad: { path: '/api/snapshots/%20/bundle' } },
  { route: 'POST S/restore', good: { body: { snapshot: 'kept' } }, bad: { body: {} } },
  {
    route: 'POST N/export',
    good: { body: { destination: 'https://127.0.0.1/x' }, status: 502 },
    bad: { body: { destination: 'http://127.0.0.1/x' } },
  },
  {
    route: 'POST /api/snapshots',
    good: { query: 'name=other', bytes: 'no snapshot', status: 403 },
    bad: { query: 'digest=md5', bytes: '' },
  },
  { route: 'DELETE N', good: {}, bad: { path: '/api/snapshots/%20' } },
  { route: 'GET /api/volumes', good: {} },
  { route: 'DELETE /api/volumes/:name', good: { status: 404 }, bad: { path: '/api/volumes/Not-One' } },
  { route: 'GET S/ports/80/check', good: {}, bad: { path: 'S/ports/0/check' } },
  { route: 'DELETE S', bad: { path: '/api/sandboxes/%20' } },
]

function requestOf(route: string, path?: string, query = '') {
  const [method, provided] = route.split(' ') as [string, string]
  const full = (path ?? provided)
    .replace(/^S/, `/api/sandboxes/${id}`)
    .replace(/^N/, '/api/snapshots/kept')
    .replace(':name', 'nonesuch')
  return { method, path: query === '' ? full : `${full}?${query}` }
}

function content(requested: { readonly body?: unknown; readonly bytes?: string }) {
  if (requested.bytes !== undefined) return { headers: { 'content-type': BYTES_TYPE }, body: requested.bytes }
  return requested.body === undefined ? {} : { headers: JSON_TYPE, body: JSON.stringify(requested.body) }
}

describe('every route', () => {
  it.each(ROUTES)('$route refuses a request without a token or with a wrong one', async ({ route }) => {
    const { method, path } = requestOf(route)
    for (const token of ['', 'b'.repeat(64), 'a'.repeat(63)]) {
      const answer = await api.ask(method, path, { token })
      expect(answer.status).toBe(401)
      expect(answer.json()).toMatchObject({ code: 'unauthorized' })
    }
  })

  it.each(ROUTES.filter(({ bad }) => bad))('$route reports invalid input', async ({ route, bad = {} }) => {
    const { method, path } = requestOf(route, bad.path, bad.query)
    const answer = await api.ask(method, path, content(bad))
    expect(answer.status).toBe(400)
    expect(answer.json()).toMatchObject({ code: 'usage' })
  })

  it.each(ROUTES.filter(({ good }) => good))(
    '$route answers a valid request',
    async ({ route, good = {} }) => {
      // This job stays open until its input ends, so the test does not read all of its first response.
      const { method, path } = requestOf(route, undefined, good.query)
      if (route === `PUT S/jobs/${JOB}`) return startOpenJob(path, good.body)
      const answer = await api.ask(method, path, content(good))
      expect(answer.status, answer.text).toBe(good.status ?? 200)
    },
  )

  it('is listed in this table', () => {
    const tried = new Set(
      ROUTES.map(({ route }) => route.replace(JOB, ':job').replace('/1/', '/:pid/').replace('/80', '/:port')),
    )
    const served = api
      .routes()
      .map((route) => route.replace('/api/sandboxes/:id', 'S').replace('/api/snapshots/:id', 'N'))
    expect(served.filter((route) => !tried.has(route))).toEqual(['GET /health', 'GET /readyz'])
  })
})

it.each([
  ['a value that fits no header', { OPENAI_API_KEY: 'made-up\u0001' }, 400],
  ['a value that is too long', { OPENAI_API_KEY: `made-up-${'x'.repeat(9_000)}` }, 400],
  ['more than all of them could be', { OPENAI_API_KEY: `made-up-${'x'.repeat(70_000)}` }, 413],
  ['a name that is no key’s', { GH_TOKEN: 'made-up' }, 400],
])('refuses an offer of keys with %s without repeating it', async (_, keys, status) => {
  const body = JSON.stringify({ keys })
  const answer = await api.ask('PUT', '/api/accounts/environment', { headers: JSON_TYPE, body })
  expect(answer.status).toBe(status)
  expect(answer.text).not.toContain('made-up')
  expect(api.faults).toEqual([])
})

it('documents every route', () => {
  const page = readFileSync(packageFile('docs/reference/operator-api.md'), 'utf8')
  expect(api.routes().filter((route) => !page.includes(`\`${route}\``))).toEqual([])
})

async function startOpenJob(path: string, body: unknown): Promise<void> {
  const socket = connectUnixSocket(api.socketPath)
  const text = JSON.stringify(body)
  socket.write(
    `PUT ${path} HTTP/1.1\r\nhost: craik\r\nauthorization: Bearer ${'a'.repeat(64)}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  )
  const [head] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  expect(head.toString()).toMatch(/^HTTP\/1.1 201 /)
  expect(head.toString()).toMatch(/craik-receipt: rcpt_/)
}

describe('the API', () => {
  it('reports its health without a token, and nothing else', async () => {
    expect((await api.ask('GET', '/health', { token: '' })).json()).toEqual({ status: 'ok' })
    expect((await api.ask('GET', '/readyz', { token: '' })).json()).toEqual({ status: 'ready' })
  })

  it('answers an unknown route in its own format, and only with a token', async () => {
    const answer = await api.ask('GET', '/api/nothing')
    expect(answer.status).toBe(404)
    expect(answer.json()).toMatchObject({ code: 'not_found', error: 'unknown route: GET /api/nothing' })
    expect((await api.ask('GET', '/api/nothing', { token: '' })).status).toBe(401)
  })

  it.each([
    ['malformed JSON', { headers: JSON_TYPE, body: '{"argv":' }, 400, 'usage'],
    ['an unknown content type', { headers: { 'content-type': 'text/xml' }, body: '<a/>' }, 400, 'usage'],
    ['bytes for JSON', { headers: { 'content-type': BYTES_TYPE }, body: 'abc' }, 400, 'usage'],
    ['an unknown field', { headers: JSON_TYPE, body: '{"argv":["true"],"shell":true}' }, 400, 'usage'],
    [
      'a poisoned prototype',
      { headers: JSON_TYPE, body: '{"__proto__":{"a":1},"argv":["true"]}' },
      400,
      'usage',
    ],
    [
      'argv and a command at once',
      { headers: JSON_TYPE, body: '{"argv":["true"],"command_ref":"a"}' },
      400,
      'usage',
    ],
    [
      'an oversized body',
      { headers: JSON_TYPE, body: JSON.stringify({ argv: ['x'.repeat(API_LIMITS.jsonBytes)] }) },
      413,
      'too_large',
    ],
  ] as const)('refuses %s with its own error', async (_what, options, status, code) => {
    const answer = await api.ask('POST', `/api/sandboxes/${id}/exec`, options)
    expect(answer.status).toBe(status)
    expect(answer.json()).toMatchObject({ code, error: expect.any(String), hint: expect.any(String) })
    expect(answer.text).not.toContain('node_modules')
  })

  it('finds a sandbox by its name, and reports a missing one', async () => {
    expect(await api.client.sandboxes.get('first')).toMatchObject({ id, name: 'first', state: 'running' })
    const answer = await api.ask('GET', '/api/sandboxes/unheard-of')
    expect(answer.status).toBe(404)
    expect(answer.json()).toMatchObject({ code: 'not_found' })
  })

  it('denies a request without a grant, whatever operator the request names', async () => {
    const headers = { ...JSON_TYPE, 'craik-operator': 'operator:root', 'x-forwarded-user': 'root' }
    const answer = await api.ask('POST', '/api/sandboxes', { headers, body: '{"isolation":"none"}' })
    expect(answer.status).toBe(403)
    expect(answer.json()).toMatchObject({ code: 'denied' })
  })

  it('refuses a grant header that is not an id', async () => {
    const headers = { 'craik-grant': '../../etc' }
    expect((await api.ask('GET', `/api/sandboxes/${id}/stats`, { headers })).status).toBe(400)
  })

  it('runs a command and answers with its output and its result', async () => {
    const ran = await api.client.sandboxes.exec('first', {
      argv: ['sh', '-c', 'cat; echo err >&2; exit 3'],
      stdin: 'héllo',
    })
    expect(ran).toMatchObject({
      outcome: 'exited',
      exit_code: 3,
      signal: null,
      stdout: { encoding: 'utf8', data: 'héllo', truncated: false },
      stderr: { encoding: 'utf8', data: 'err\n', truncated: false },
    })
  })

  it('encodes bytes that are not UTF-8 in base64, and truncates long output', async () => {
    const ran = await api.client.sandboxes.exec('first', {
      argv: ['sh', '-c', `printf '\\377\\376'; head -c ${API_LIMITS.bufferedBytes + 1} /dev/zero >&2`],
    })
    expect(ran.stdout).toEqual({ encoding: 'base64', data: '//4=', truncated: false })
    expect(ran.stderr.truncated).toBe(true)
    expect(ran.stderr.data).toHaveLength(API_LIMITS.bufferedBytes)
  })

  it('runs a command once when the same request arrives twice', async () => {
    const job_id = newId('job', Date.now())
    const body = { argv: ['sh', '-c', 'echo once >> twice.txt; cat twice.txt'], job_id }
    const first = await api.client.sandboxes.exec('first', body)
    const second = await api.client.sandboxes.exec('first', body)
    expect(second).toMatchObject({ stdout: first.stdout, receipt_id: first.receipt_id })
  })

  it('turns a connection into a stream to a port in the sandbox', async () => {
    const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(
      0,
      '127.0.0.1',
    )
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const stream = await api.client.sandboxes.connectPort('first', port)
    stream.end('through and back')
    expect((await stream.toArray()).join('')).toBe('through and back')
    server.close()
  })

  it('refuses invalid requests for a port like other requests', async () => {
    await expect(api.client.sandboxes.connectPort('first', 1)).rejects.toMatchObject({ name: 'CraikError' })
    await expect(api.client.sandboxes.connectPort('unheard-of', 80)).rejects.toMatchObject({
      code: 'not_found',
    })
    const headers = { connection: 'Upgrade', upgrade: 'websocket' }
    expect((await api.ask('GET', `/api/sandboxes/${id}/ports/80`, { headers })).status).toBe(400)
    const answer = await api.ask('GET', `/api/sandboxes/${id}/ports/80`, { headers, token: '' })
    expect(answer.status).toBe(401)
  })

  it('refuses requests while it shuts down, and says when to retry', async () => {
    api.draining = true
    try {
      const answer = await api.ask('GET', '/api/sandboxes')
      expect(answer.status).toBe(503)
      expect(answer.json()).toMatchObject({ code: 'supervisor_unreachable', retry_after_ms: 100 })
      expect((await api.ask('GET', '/readyz', { token: '' })).status).toBe(503)
    } finally {
      api.draining = false
    }
  })

  it('accepts a body of bytes that is longer than the JSON limit', async () => {
    const bytes = 3 * API_LIMITS.jsonBytes
    const body = Buffer.alloc(bytes, 'x')
    const headers = { 'content-type': BYTES_TYPE, 'content-length': String(bytes) }
    const query = `path=large&upload=${newId('job', 2)}&bytes=${bytes}`
    const answer = await api.ask('PUT', `/api/sandboxes/${id}/files/content?${query}`, { headers, body })
    expect(answer.json()).toEqual({ offset: bytes, committed: true })
  })

  it('caused no internal error in these tests', () => {
    expect(api.faults).toEqual([])
  })
})
