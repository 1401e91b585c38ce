import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { MAX_INBOUND, MAX_OPEN_STREAMS, MAX_SURPLUS } from './boundary-timeouts.ts'
import { connectBoundary } from './connect-boundary.ts'
import {
  expectCraikError,
  type HostileAnswer,
  hostileSidecar,
  http2Frame,
  JOB,
  SIDECAR_HELLO,
  sendJson,
  serveHttp2,
  socketPair,
} from './hostile-sidecar.fixture.ts'

const SETTINGS = 4
const PING = 6
const HEADERS = 1
const CONTINUATION = 9
const WINDOW_UPDATE = 8

/** Greets a sidecar that answers `/hello` with `answer`, and returns the error. */
async function greetingOf(answer: HostileAnswer, timeouts = {}): Promise<{ code: string; message: string }> {
  await using pair = await socketPair()
  serveHttp2(pair.inside, answer)
  const failure = await expectCraikError(
    connectBoundary(pair.host, NEVER_ABORTED, { onInbound: () => {}, timeouts: timeouts }),
  )
  expect(pair.host.destroyed).toBe(true)
  return failure
}

describe('greeting a sidecar', () => {
  it('gives up on a sidecar that never answers', async () => {
    const failure = await greetingOf(() => {}, { helloMs: 50 })
    expect(failure).toMatchObject({
      code: 'boundary_failed',
      message: expect.stringMatching(/did not answer/),
    })
  })

  it('gives up on a sidecar that never speaks HTTP/2 at all', async () => {
    await using pair = await socketPair()
    const failure = await expectCraikError(
      connectBoundary(pair.host, NEVER_ABORTED, { onInbound: () => {}, timeouts: { helloMs: 50 } }),
    )
    expect(failure.code).toBe('boundary_failed')
  })

  it('gives up on a sidecar that speaks another protocol', async () => {
    await using pair = await socketPair()
    pair.inside.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi')
    const failure = await expectCraikError(connectBoundary(pair.host, NEVER_ABORTED, { onInbound: () => {} }))
    expect(failure.code).toBe('boundary_failed')
  })

  it('gives up on a sidecar that starts a response and does not end it', async () => {
    const failure = await greetingOf((stream) => stream.respond({ ':status': 200 }), { helloMs: 50 })
    expect(failure.message).toMatch(/did not answer within 50 ms/)
  })

  it('does not read a greeting of 10 MB', async () => {
    const failure = await greetingOf((stream) =>
      sendJson(stream, 200, { ...SIDECAR_HELLO, version: 'x'.repeat(10_000_000) }),
    )
    expect(failure).toMatchObject({
      code: 'boundary_failed',
      message: expect.stringMatching(/more than 65536/),
    })
  })

  it('names both versions when they differ', async () => {
    const failure = await greetingOf((stream) => sendJson(stream, 200, { protocol: 7 }))
    expect(failure).toMatchObject({
      code: 'version_mismatch',
      message: expect.stringMatching(/uses protocol version 7, .* uses 1$/),
    })
  })

  it('trusts the sidecar’s own report that the versions differ', async () => {
    const failure = await greetingOf((stream) =>
      sendJson(stream, 426, { code: 'protocol', message: 'I speak 7' }),
    )
    expect(failure).toMatchObject({ code: 'version_mismatch', message: expect.stringMatching(/“I speak 7”/) })
  })

  it.each([
    ['an instance of control characters', { ...SIDECAR_HELLO, instance: '\u001b[2J' }],
    ['a port that is none', { ...SIDECAR_HELLO, gatewayPort: 65_536 }],
    ['a time that is no number', { ...SIDECAR_HELLO, startedAtMs: 'now' }],
    ['a home with a NUL', { ...SIDECAR_HELLO, home: '/home\0' }],
    ['nothing', null],
    ['garbage after it', `${JSON.stringify(SIDECAR_HELLO)}{}`],
  ])('refuses %s', async (_, hello) => {
    expect((await greetingOf((stream) => sendJson(stream, 200, hello))).code).toBe('boundary_failed')
  })

  it('stops when the caller aborts', async () => {
    await using pair = await socketPair()
    const controller = new AbortController()
    const greeting = expectCraikError(connectBoundary(pair.host, controller.signal, { onInbound: () => {} }))
    controller.abort()
    expect((await greeting).code).toBe('interrupted')
    expect(pair.host.destroyed).toBe(true)
  })
})

describe('a connection to a sidecar', () => {
  it('reports that it was lost, and fails pending requests', async () => {
    await using hostile = await hostileSidecar(() => {})
    const pending = expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))
    hostile.inside.destroy()
    expect(await pending).toMatchObject({
      code: 'boundary_failed',
      message: expect.stringMatching(/was lost/),
    })
    expect(await hostile.boundary.closed).toMatch(/was lost/)
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).code).toBe('boundary_failed')
  })

  it('closes when a stalled sidecar does not answer a ping', async () => {
    await using hostile = await hostileSidecar(() => {}, { pingEveryMs: 20, pingMs: 50 })
    const pending = expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))
    // This is like SIGSTOP: the socket is open, but nothing reads it.
    hostile.inside.removeAllListeners('data').pause()
    expect(await hostile.boundary.closed).toMatch(/did not answer/)
    expect((await pending).message).toMatch(/did not answer/)
  })

  it('stays open as long as pings are answered', async () => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, { jobs: [] }), {
      pingEveryMs: 1,
      pingMs: 5_000,
    })
    for (let i = 0; i < 50; i++) expect(await hostile.boundary.jobs.list(NEVER_ABORTED)).toEqual([])
  })

  it.each([
    ['pings', http2Frame(PING, 0, 0, Buffer.alloc(8))],
    ['settings', http2Frame(SETTINGS, 0, 0)],
    ['headers of streams that do not exist', http2Frame(HEADERS, 4, 99, Buffer.from([0x88]))],
    ['headers without an end', Buffer.concat([http2Frame(HEADERS, 0, 1), http2Frame(CONTINUATION, 0, 1)])],
    ['empty data', http2Frame(0, 0, 1)],
    ['a push', http2Frame(5, 4, 1, Buffer.from([0, 0, 0, 2, 0x82]))],
    ['a frame of 16 MB', Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])],
    ['bytes of chance', Buffer.from('89504e470d0a1a0a89504e470d0a1a0a', 'hex')],
  ])('closes when the sidecar floods it with %s', async (_, frame) => {
    await using pair = await socketPair()
    pair.inside.write(http2Frame(SETTINGS, 0, 0))
    const flood = Buffer.concat(Array.from({ length: 1000 }, () => frame))
    const pour = () => {
      while (!pair.inside.destroyed && pair.inside.write(flood));
    }
    pair.inside.on('drain', pour)
    pair.inside.resume()
    pour()
    const failure = await expectCraikError(connectBoundary(pair.host, NEVER_ABORTED, { onInbound: () => {} }))
    expect(failure.code).toBe('boundary_failed')
    expect(pair.host.destroyed).toBe(true)
  })

  it('closes when the sidecar floods it with valid HTTP/2 frames that carry nothing', async () => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, { jobs: [] }))
    const one = Buffer.from([0, 0, 0, 1])
    const nothing = Buffer.concat(Array.from({ length: 5000 }, () => http2Frame(WINDOW_UPDATE, 0, 0, one)))
    const pour = () => {
      while (!hostile.inside.destroyed && hostile.inside.write(nothing));
    }
    hostile.inside.on('drain', pour)
    pour()
    expect(await hostile.boundary.closed).toMatch(/flooded the host with empty frames/)
  })

  it('fails requests to a sidecar that accepts no streams or no bytes', async () => {
    await using hostile = await hostileSidecar(() => {}, { answerMs: 50 })
    hostile.session.settings({ maxConcurrentStreams: 0, initialWindowSize: 0 })
    const spec = { kind: 'exec', argv: ['true'] } as const
    expect((await expectCraikError(hostile.boundary.jobs.start(JOB, spec, NEVER_ABORTED))).code).toBe(
      'boundary_failed',
    )
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).code).toBe('boundary_failed')
  })

  it('fails a request whose response has 100 KB of headers', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept')
        stream.respond({ ':status': 200, a: 'a'.repeat(60_000), b: 'b'.repeat(40_000) })
    })
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).code).toBe('boundary_failed')
  })

  it.each([204, 302, 599])('fails a request whose response has status %d', async (status) => {
    await using hostile = await hostileSidecar(
      (stream, what) => {
        if (what !== 'POST /accept') stream.respond({ ':status': status }, { endStream: true })
      },
      { answerMs: 100 },
    )
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).code).toBe('boundary_failed')
    expect((await expectCraikError(hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED))).code).toBe(
      'boundary_failed',
    )
  })

  it('closes when the sidecar sends early headers without end', async () => {
    await using hostile = await hostileSidecar((stream) => {
      const more = () => {
        for (let i = 0; i < 50 && !stream.destroyed; i++) stream.additionalHeaders({ ':status': 103 })
        if (!stream.destroyed) setImmediate(more)
      }
      more()
    })
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).message).toMatch(
      /flooded the host with headers/,
    )
  })

  it('closes when the sidecar pushes a stream', async () => {
    await using hostile = await hostileSidecar((stream) => {
      expect(stream.pushAllowed).toBe(false)
      hostile.inside.write(http2Frame(5, 4, stream.id!, Buffer.from([0, 0, 0, 2, 0x82])))
    })
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).code).toBe('boundary_failed')
    await hostile.boundary.closed
  })

  it('limits the number of open streams, and reports the limit', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept') stream.respond({ ':status': 200 })
    })
    const started = await Promise.allSettled(
      Array.from({ length: MAX_OPEN_STREAMS + 50 }, () =>
        hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED),
      ),
    )
    const refused = started.filter((one) => one.status === 'rejected')
    expect(refused.length).toBeGreaterThanOrEqual(50)
    expect(refused[0]?.reason).toMatchObject({ code: 'limit_reached' })
  })

  it('closes once, even when it is closed twice', async () => {
    await using hostile = await hostileSidecar(() => {})
    await Promise.all([hostile.boundary.close(), hostile.boundary.close()])
    expect(await hostile.boundary.closed).toMatch(/the host closed/)
  })
})

describe('connections from the sandbox', () => {
  it('find open accept streams, and new ones after some are used', async () => {
    const held: Parameters<HostileAnswer>[0][] = []
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') held.push(stream)
    })
    while (held.length < LIMITS.acceptStreams) await turn()
    const joined = held.shift()!
    joined.respond({ ':status': 200 })
    joined.write('GET / HTTP/1.1\r\n\r\n')
    while (hostile.inbound.length === 0 || held.length < LIMITS.acceptStreams) await turn()
    const [bytes] = await hostile.inbound[0]!.take(1).toArray()
    expect(String(bytes)).toBe('GET / HTTP/1.1\r\n\r\n')
    expect(hostile.boundary.counts().connections).toBe(1)
  })

  it('are awaited after a growing delay when the sidecar closes accept streams at once', async () => {
    let requestCount = 0
    await using hostile = await hostileSidecar(
      (stream, what) => {
        if (what === 'GET /jobs') return sendJson(stream, 200, { jobs: [] })
        requestCount++
        stream.close(8)
      },
      { reopenMs: 60_000, reopenMaxMs: 60_000 },
    )
    for (let i = 0; i < 20; i++) await hostile.boundary.jobs.list(NEVER_ABORTED)
    expect(requestCount).toBe(LIMITS.acceptStreams)
    expect(hostile.boundary.counts().connections).toBe(0)
  })

  it('are limited to 128 at a time', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') stream.respond({ ':status': 200 })
      else sendJson(stream, 200, { jobs: [] })
    })
    while (hostile.inbound.length < 128) await turn()
    await hostile.boundary.jobs.list(NEVER_ABORTED)
    expect(hostile.inbound.length).toBe(128)
    expect(hostile.boundary.counts().connections).toBe(128)
  })

  it('beyond the limit are passed on when another one ends', async () => {
    let joined = 0
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept' || joined >= MAX_INBOUND + 2) return
      joined++
      stream.respond({ ':status': 200 })
      stream.write(`number ${joined}`)
    })
    while (joined < MAX_INBOUND + 2) await turn()
    expect(hostile.inbound.length).toBe(MAX_INBOUND)
    hostile.inbound[5]!.destroy()
    while (hostile.inbound.length === MAX_INBOUND) await turn()
    const [bytes] = await hostile.inbound[MAX_INBOUND]!.take(1).toArray()
    expect(String(bytes)).toBe(`number ${MAX_INBOUND + 1}`)
    expect(hostile.surplus).toEqual([])
  })

  it('beyond the limit that wait too long are passed on as surplus, once each, and only a limited number waits at a time', async () => {
    let joined = 0
    const answer: HostileAnswer = (stream, what) => {
      if (what === 'GET /jobs') return sendJson(stream, 200, { jobs: [] })
      joined++
      stream.respond({ ':status': 200 })
    }
    await using longTimeouts = await hostileSidecar(answer, { surplusMs: 600_000 })
    while (joined < MAX_INBOUND + MAX_SURPLUS) await turn()
    await longTimeouts.boundary.jobs.list(NEVER_ABORTED)
    expect(joined).toBe(MAX_INBOUND + MAX_SURPLUS)
    expect(longTimeouts.surplus).toEqual([])
    await using hostile = await hostileSidecar(answer, { surplusMs: 10 })
    while (hostile.surplus.length < MAX_SURPLUS) await turn()
    expect(hostile.inbound.length).toBe(MAX_INBOUND)
    expect(hostile.boundary.counts().connections).toBe(MAX_INBOUND + hostile.surplus.length)
  })

  it('fail when the sidecar is lost, instead of ending as if they were complete', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept' && hostile.inbound.length === 0) stream.respond({ ':status': 200 })
    })
    while (hostile.inbound.length === 0) await turn()
    const read = expectCraikError(hostile.inbound[0]!.toArray())
    hostile.inside.destroy()
    expect((await read).message).toMatch(/connection to the sandbox (was lost|failed)/)
  })
})
