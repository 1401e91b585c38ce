import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { duplexPair, Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { connectBoundary } from './connect-boundary.ts'
import {
  expectCraikError,
  hostileSidecar,
  SIDECAR_HELLO,
  sendJson,
  serveHttp2,
} from './hostile-sidecar.fixture.ts'

const STAT = { path: '/workspace/home/a', type: 'file', bytes: 5, mode: 0o644, modifiedAtMs: 1 } as const

async function answering(headers: IncomingHttpHeaders, body: string, timeouts = {}) {
  return await hostileSidecar((stream: ServerHttp2Stream, what) => {
    if (what === 'POST /accept') return
    stream.respond({ ':status': 200, ...headers })
    stream.end(body)
  }, timeouts)
}

describe('reading a file', () => {
  it('returns its bytes, its etag and its size', async () => {
    await using hostile = await answering({ etag: 'e1', 'content-length': '3', 'craik-size': '5' }, 'llo')
    const { etag, bytes, body } = await hostile.boundary.files.read('a', { offset: 2 }, NEVER_ABORTED)
    expect({ etag, bytes }).toEqual({ etag: 'e1', bytes: 5 })
    expect(Buffer.concat(await body.toArray()).toString()).toBe('llo')
  })

  it('returns all of it in order, in pieces of any size', async () => {
    const sizes = [...Array<number>(300).fill(1), ...Array<number>(40).fill(16_000), 3]
    const pieces = sizes.map((size, index) => Buffer.alloc(size, index))
    const whole = Buffer.concat(pieces)
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      const headers = { etag: 'e', 'craik-size': whole.length, 'content-length': whole.length }
      stream.respond({ ':status': 200, ...headers })
      for (const piece of pieces) stream.write(piece)
      stream.end()
    })
    const { body } = await hostile.boundary.files.read('a', { offset: 0 }, NEVER_ABORTED)
    expect(Buffer.concat(await body.toArray()).equals(whole)).toBe(true)
  })

  it.each([
    ['no etag', { 'content-length': '5', 'craik-size': '5' }],
    ['no length', { etag: 'e', 'craik-size': '5' }],
    ['no size', { etag: 'e', 'content-length': '5' }],
    ['a size beyond counting', { etag: 'e', 'content-length': '5', 'craik-size': '9'.repeat(16) }],
    ['a size that is no number', { etag: 'e', 'content-length': '5', 'craik-size': '0x5' }],
    ['less than was asked for', { etag: 'e', 'content-length': '5', 'craik-size': '9' }],
    ['an etag of 10 KB', { etag: 'e'.repeat(10_000), 'content-length': '5', 'craik-size': '5' }],
  ])('refuses a response with %s', async (_, headers) => {
    await using hostile = await answering(headers, 'hello')
    const read = hostile.boundary.files.read('a', { offset: 0 }, NEVER_ABORTED)
    expect((await expectCraikError(read)).code).toBe('boundary_failed')
  })

  it.each([
    ['less', 'hell'],
    ['more', 'hello!'],
  ])('fails when %s data arrives than was announced', async (_, body) => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200, etag: 'e', 'craik-size': 5, 'content-length': 5 })
      stream.end(body)
    })
    const content = await expectCraikError(
      hostile.boundary.files.read('a', { offset: 0 }, NEVER_ABORTED).then(({ body }) => body.toArray()),
    )
    expect(content.code).toBe('boundary_failed')
  })

  it('fails when the body stops halfway', async () => {
    await using hostile = await hostileSidecar(
      (stream, what) => {
        if (what === 'POST /accept') return
        stream.respond({ ':status': 200, etag: 'e', 'craik-size': 5, 'content-length': 5 })
        stream.write('he')
      },
      { silenceMs: 50 },
    )
    const { body } = await hostile.boundary.files.read('a', { offset: 0 }, NEVER_ABORTED)
    expect((await expectCraikError(body.toArray())).message).toMatch(/sent nothing for/)
  })

  it('completes an empty file even if the whole response arrives at once, and not from a socket', async () => {
    const [inside, outside] = duplexPair()
    const host = Object.assign(outside, { bytesRead: 0, bytesWritten: 0 })
    serveHttp2(inside, (stream, what) => {
      if (what === 'GET /hello') sendJson(stream, 200, SIDECAR_HELLO)
      else if (what !== 'POST /accept') {
        stream.respond({ ':status': 200, etag: 'e', 'craik-size': 0, 'content-length': 0 })
        stream.end()
      }
    })
    const boundary = await connectBoundary(host, NEVER_ABORTED, {
      onInbound: () => {},
      timeouts: { silenceMs: 1000 },
    })
    const { body } = await boundary.files.read('a', { offset: 0 }, NEVER_ABORTED)
    expect(await body.toArray()).toEqual([])
    await boundary.close()
  })

  it('reports that the file has changed', async () => {
    await using hostile = await hostileSidecar((stream) =>
      sendJson(stream, 412, { code: 'changed', message: 'it changed' }),
    )
    const read = hostile.boundary.files.read('a', { offset: 0, etag: 'e' }, NEVER_ABORTED)
    expect(await expectCraikError(read)).toMatchObject({ code: 'conflict' })
  })
})

describe('writing a file', () => {
  const upload = { upload: 'up_1', path: 'a', bytes: 5, mode: 0o644 }

  it('returns the offset that arrived, and counts a repeated upload once', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept')
        stream.resume().on('end', () => sendJson(stream, 200, { offset: 5, committed: true }))
    })
    const { files } = hostile.boundary
    const body = () => Readable.from([Buffer.from('hello')])
    expect(await files.write(upload, 0, body(), NEVER_ABORTED)).toEqual({ offset: 5, committed: true })
    expect(await files.write(upload, 0, body(), NEVER_ABORTED)).toEqual({ offset: 5, committed: true })
    expect(hostile.boundary.counts().writes).toBe(1)
  })

  it('refuses an offset beyond the end of the file', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept')
        stream.resume().on('end', () => sendJson(stream, 200, { offset: 6, committed: false }))
    })
    const sent = hostile.boundary.files.write(upload, 0, Readable.from([Buffer.from('hello')]), NEVER_ABORTED)
    expect((await expectCraikError(sent)).message).toMatch(/an invalid offset/)
  })

  it('fails when the sidecar reads nothing', async () => {
    await using hostile = await hostileSidecar(() => {}, { silenceMs: 50 })
    const body = Readable.from([Buffer.alloc(1024 * 1024), Buffer.alloc(1024 * 1024)])
    const sent = hostile.boundary.files.write({ ...upload, bytes: 2 ** 21 }, 0, body, NEVER_ABORTED)
    expect((await expectCraikError(sent)).message).toMatch(/read nothing for/)
    expect(body.destroyed).toBe(true)
  })

  it('leaves no timer running when the last piece fills the stream and also ends it', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept')
        stream.resume().on('end', () => sendJson(stream, 200, { offset: 2 ** 20, committed: true }))
    })
    const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length
    const body = new Readable({ read() {} })
    body.push(Buffer.alloc(2 ** 20))
    body.push(null)
    const before = timers()
    await hostile.boundary.files.write({ ...upload, bytes: 2 ** 20 }, 0, body, NEVER_ABORTED)
    expect(timers()).toBe(before)
  })

  it('reports that the disk in the sandbox is full', async () => {
    await using hostile = await hostileSidecar((stream) =>
      sendJson(stream, 507, { code: 'full', message: 'no space left' }),
    )
    const sent = hostile.boundary.files.write(upload, 0, Readable.from([Buffer.from('hello')]), NEVER_ABORTED)
    expect(await expectCraikError(sent)).toMatchObject({ code: 'limit_reached' })
  })
})

describe('inspecting files', () => {
  it('refuses an endless list', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200 })
      const entry = `${JSON.stringify(STAT)},`
      const more = () => {
        while (!stream.destroyed && stream.write(entry.repeat(1000)));
      }
      stream.on('drain', more)
      stream.write('{"path":"/","entries":[')
      more()
    })
    const list = hostile.boundary.files.list('/', undefined, 1000, NEVER_ABORTED)
    expect((await expectCraikError(list)).message).toMatch(/more than 8388608 bytes/)
  })

  it.each([
    ['too many entries', { path: '/', entries: Array.from({ length: 1001 }, () => STAT) }],
    ['a negative size', { path: '/', entries: [{ ...STAT, bytes: -1 }] }],
    ['a kind of its own', { path: '/', entries: [{ ...STAT, type: 'portal' }] }],
    ['a path with a NUL', { path: '/', entries: [{ ...STAT, path: 'a\0b' }] }],
    ['a path of 5 KB', { path: '/', entries: [{ ...STAT, path: 'a'.repeat(5000) }] }],
  ])('refuses a list with %s', async (_, list) => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, list))
    const pending = hostile.boundary.files.list('/', undefined, 1000, NEVER_ABORTED)
    expect((await expectCraikError(pending)).code).toBe('boundary_failed')
  })

  it('leaves out unknown fields', async () => {
    const reply =
      '{"path":"/a","type":"file","bytes":1,"mode":420,"modifiedAtMs":-5,"extra":1,"__proto__":{"x":1}}'
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, reply))
    expect(await hostile.boundary.files.stat('/a', NEVER_ABORTED)).toEqual({
      path: '/a',
      type: 'file',
      bytes: 1,
      mode: 420,
      modifiedAtMs: -5,
    })
  })

  it.each([
    ['something that is no event', '{"seq":1,"type":"danced","path":"a"}\n'],
    ['a line without end', 'x'.repeat(40_000)],
    ['half a line', '{"seq":1'],
  ])('ends a watch that sends %s', async (_, lines) => {
    await using hostile = await answering({}, lines)
    const events = await hostile.boundary.files.watch('/', true, 0, NEVER_ABORTED)
    expect((await expectCraikError(events.toArray())).code).toBe('boundary_failed')
  })

  it('passes on the events of a watch', async () => {
    const line = '{"seq":1,"type":"created","path":"a"}\n'
    await using hostile = await answering({}, line.repeat(3))
    const events = await hostile.boundary.files.watch('/', true, 0, NEVER_ABORTED)
    expect(Buffer.concat(await events.toArray()).toString()).toBe(line.repeat(3))
  })
})

describe('an error from the sandbox', () => {
  it('is quoted and shortened, and cannot control a terminal', async () => {
    const message = `\u001b]0;owned\u0007${'a'.repeat(5000)}`
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 400, { code: 'usage', message }))
    const failure = await expectCraikError(hostile.boundary.files.stat('/a', NEVER_ABORTED))
    expect(failure.code).toBe('usage')
    expect(failure.message).toMatch(/^cannot inspect a file: the sandbox reported “·\]0;owned·a+…”$/)
    expect(failure.message.length).toBeLessThan(360)
  })

  it.each([
    ['a code of its own', { code: 'denied', message: 'x' }],
    ['no message', { code: 'usage' }],
    ['a page', '<html>'],
  ])('with %s is a boundary failure', async (_, body) => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 400, body))
    const failure = await expectCraikError(hostile.boundary.files.stat('/a', NEVER_ABORTED))
    expect(failure.code).toBe('boundary_failed')
  })
})
