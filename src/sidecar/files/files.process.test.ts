/** Tests the files of a sandbox, with requests as the host sends them. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../lib/clock.ts'
import { collectBytes, Served } from '../network/served.fixture.ts'
import { type FileList, type FileStat, LIMITS, type Upload } from '../protocol.ts'
import { answerFor } from './request-path.ts'
import { fileRoutes } from './routes.ts'
import { OpenUpload } from './upload.ts'

let workspace: string
let served: Served

beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), 'craik-files-'))
  served = new Served(fileRoutes({ workspace, clock: systemClock }))
})
afterEach(async () => {
  await served[Symbol.asyncDispose]()
  rmSync(workspace, { recursive: true, force: true })
  expect(served.faults).toEqual([])
})

interface Failure {
  readonly code: string
  readonly message: string
}

async function failure(method: string, path: string, query: Record<string, string | number>, body = '') {
  const answer = await served.ask(method, path, query, body)
  return { status: answer.status, ...(JSON.parse(answer.body.toString()) as Failure) }
}

const read = (query: Record<string, string | number>) => served.ask('GET', '/files/content', query)

describe('reading a file', () => {
  it('returns the bytes, the size and an etag', async () => {
    writeFileSync(join(workspace, 'a.txt'), 'hello world')
    const whole = await read({ path: 'a.txt' })
    expect(whole.status).toBe(200)
    expect(whole.body.toString()).toBe('hello world')
    expect(whole.headers['content-length']).toBe('11')
    expect(whole.headers['craik-size']).toBe('11')
    const part = await read({
      path: join(workspace, 'a.txt'),
      offset: 6,
      length: 3,
      etag: String(whole.headers.etag),
    })
    expect(part.body.toString()).toBe('wor')
    expect(part.headers['craik-size']).toBe('11')
  })

  it('returns any range of a large file', async () => {
    const content = Buffer.from(Array.from({ length: 1_500_000 }, (_, at) => (at * 31) % 251))
    writeFileSync(join(workspace, 'large'), content)
    await fc.assert(
      fc.asyncProperty(fc.nat(content.length), fc.nat(content.length + 10), async (offset, length) => {
        const { body } = await read({ path: 'large', offset, length })
        expect(body.equals(content.subarray(offset, offset + length))).toBe(true)
      }),
      { numRuns: 25 },
    )
  })

  it('refuses to continue with a file that has changed', async () => {
    const path = join(workspace, 'a')
    writeFileSync(path, 'one')
    const etag = String((await read({ path })).headers.etag)
    utimesSync(path, 1, 1)
    expect(await failure('GET', '/files/content', { path, etag })).toMatchObject({
      status: 412,
      code: 'changed',
    })
  })

  it('breaks off when the file becomes shorter during the read', async () => {
    const path = join(workspace, 'shrinks')
    writeFileSync(path, Buffer.alloc(20_000_000))
    const stream = served.open('GET', '/files/content', { path })
    await once(stream, 'response')
    truncateSync(path, 10)
    const body = await collectBytes(stream)
    expect(body.length).toBeLessThan(20_000_000)
    expect(stream.rstCode).not.toBe(0)
  })

  it('reads no further than the client, and closes the file when the client disconnects', async () => {
    const path = join(workspace, 'huge')
    writeFileSync(path, '')
    truncateSync(path, 1 << 30)
    const stream = served.open('GET', '/files/content', { path })
    await once(stream, 'response')
    const openFiles = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === path
        } catch {
          return false
        }
      }).length
    await sleep(50)
    expect(openFiles()).toBe(1)
    stream.close(8)
    while (openFiles() > 0) await sleep(5)
  })

  it('never waits for a FIFO, and returns regular files only', async () => {
    execFileSync('mkfifo', [join(workspace, 'fifo')])
    const socket = createServer().listen(join(workspace, 'sock'))
    await once(socket, 'listening')
    symlinkSync('/dev/zero', join(workspace, 'zero'))
    for (const path of ['fifo', 'zero', '.', 'sock'])
      expect(await failure('GET', '/files/content', { path })).toMatchObject({ status: 400, code: 'usage' })
    socket.close()
  })

  it('reports the problem with a path', async () => {
    expect(await failure('GET', '/files/content', { path: 'nowhere' })).toMatchObject({ code: 'not_found' })
    expect(await failure('GET', '/files/content', { path: 'a\0b' })).toMatchObject({ code: 'usage' })
    expect(await failure('GET', '/files/content', { path: 'x'.repeat(5000) })).toMatchObject({
      code: 'too_large',
    })
    expect(await failure('GET', '/files/content', { path: 'x'.repeat(300) })).toMatchObject({
      code: 'too_large',
    })
    expect(await failure('GET', '/files/content', {})).toMatchObject({ code: 'usage' })
    writeFileSync(join(workspace, 'short'), 'abc')
    expect(await failure('GET', '/files/content', { path: 'short', offset: 4 })).toMatchObject({
      code: 'usage',
    })
  })
})

describe('writing a file', () => {
  const put = async (query: Record<string, string | number>, body: Buffer | string) => {
    const answer = await served.ask('PUT', '/files/content', query, body)
    return { status: answer.status, value: JSON.parse(answer.body.toString()) as Upload & Failure }
  }
  const state = (upload: string) => served.json<Upload & Failure>('GET', '/files/upload', { upload })

  it('renames it into place when it is complete, with its mode, and leaves nothing beside it', async () => {
    const query = { path: 'sub.txt', upload: 'u1', size: 5, mode: 0o750 }
    expect((await put({ ...query, offset: 0 }, 'he')).value).toEqual({ offset: 2, committed: false })
    expect(readdirSync(workspace)).toEqual(['.craik-upload-u1'])
    expect((await state('u1')).value).toEqual({ offset: 2, committed: false })
    expect((await put({ ...query, offset: 2 }, 'llo')).value).toEqual({ offset: 5, committed: true })
    expect(readdirSync(workspace)).toEqual(['sub.txt'])
    expect(readFileSync(join(workspace, 'sub.txt'), 'utf8')).toBe('hello')
    expect(statSync(join(workspace, 'sub.txt')).mode & 0o777).toBe(0o750)
  })

  it('gives a retry after the end the same response, and writes nothing again', async () => {
    const query = { path: 'a', upload: 'u', size: 3, offset: 0 }
    await put(query, 'abc')
    writeFileSync(join(workspace, 'a'), 'mine')
    expect((await put(query, 'abc')).value).toEqual({ offset: 3, committed: true })
    expect((await state('u')).value).toEqual({ offset: 3, committed: true })
    expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('mine')
  })

  it('accepts an empty file', async () => {
    expect((await put({ path: 'empty', upload: 'e', size: 0, offset: 0 }, '')).value.committed).toBe(true)
    expect(readFileSync(join(workspace, 'empty')).length).toBe(0)
  })

  it('ignores bytes that it has, and refuses to leave a gap', async () => {
    const query = { path: 'a', upload: 'u', size: 10 }
    await put({ ...query, offset: 0 }, '01234')
    expect(await put({ ...query, offset: 6 }, '6789')).toMatchObject({
      status: 409,
      value: { code: 'conflict' },
    })
    expect((await put({ ...query, offset: 2 }, '23456789')).value.committed).toBe(true)
    expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('0123456789')
  })

  it('loses and doubles no byte, however the upload is split and repeated', async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 5000 }),
        fc.array(fc.nat(5000), { maxLength: 5 }),
        async (raw, cuts) => {
          const content = Buffer.from(raw)
          const query = { path: 'p', upload: `r${run++}`, size: content.length }
          let at = 0
          for (const cut of cuts) {
            // Each part begins at or before the end of what has arrived, and ends anywhere.
            const from = Math.max(0, at - (cut % 700))
            const to = Math.min(content.length, from + cut)
            const { value } = await put({ ...query, offset: from }, content.subarray(from, to))
            expect(value.offset).toBe(Math.max(at, to))
            at = value.offset
          }
          const { value } = await put({ ...query, offset: at }, content.subarray(at))
          expect(value).toEqual({ offset: content.length, committed: true })
          expect(readFileSync(join(workspace, 'p')).equals(content)).toBe(true)
        },
      ),
      { numRuns: 25 },
    )
  })

  it('keeps what arrived when the sender breaks off, and lets the next one take over', async () => {
    const query = { path: 'a', upload: 'u', size: 8 }
    const broken = served.open('PUT', '/files/content', { ...query, offset: 0 })
    broken.write('abcd')
    while ((await state('u')).value.offset !== 4) await sleep(5)
    // The first request is still open. The second ends it.
    expect((await put({ ...query, offset: 4 }, 'efgh')).value).toEqual({ offset: 8, committed: true })
    if (!broken.closed) await once(broken, 'close')
    expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('abcdefgh')
  })

  it('keeps what arrived when the system is out of memory for a moment', async () => {
    const query = { path: 'a', upload: 'u', size: 4 }
    const commit = vi.spyOn(OpenUpload.prototype, 'commitWhenWhole')
    commit.mockRejectedValueOnce(answerFor(Object.assign(new Error(), { code: 'ENOMEM' }), 'a'))
    expect(await put({ ...query, offset: 0 }, 'abcd')).toMatchObject({ status: 503 })
    expect((await state('u')).value).toEqual({ offset: 4, committed: false })
    expect((await put({ ...query, offset: 4 }, '')).value).toEqual({ offset: 4, committed: true })
    expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('abcd')
  })

  it('refuses more bytes than were announced, and another file under the same id', async () => {
    expect(await put({ path: 'a', upload: 'u', size: 2, offset: 0 }, 'abc')).toMatchObject({ status: 413 })
    expect(readdirSync(workspace)).toEqual([])
    await put({ path: 'a', upload: 'v', size: 9, offset: 0 }, 'abc')
    expect(await put({ path: 'b', upload: 'v', size: 9, offset: 3 }, 'def')).toMatchObject({ status: 409 })
  })

  it('writes through a link to a file, and never over a folder', async () => {
    writeFileSync(join(workspace, 'real'), 'old')
    symlinkSync('real', join(workspace, 'link'))
    await put({ path: 'link', upload: 'l', size: 3, offset: 0 }, 'new')
    expect(readlinkSync(join(workspace, 'link'))).toBe('real')
    expect(readFileSync(join(workspace, 'real'), 'utf8')).toBe('new')
    mkdirSync(join(workspace, 'dir'))
    expect(await put({ path: 'dir', upload: 'd', size: 3, offset: 0 }, 'new')).toMatchObject({ status: 409 })
    expect(await put({ path: 'no/such', upload: 'n', size: 1, offset: 0 }, 'x')).toMatchObject({
      status: 404,
    })
  })

  it('reports that the disk is full, and frees the space that it had used', () => {
    // In namespaces of its own, any user may mount a small disk, which ends with the process.
    const inside = 'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" "$3" "$1"'
    const fixture = join(import.meta.dirname, 'full-disk.fixture.ts')
    const message = execFileSync(
      'unshare',
      [
        '--user',
        '--map-root-user',
        '--mount',
        'sh',
        '-c',
        inside,
        'sh',
        workspace,
        process.execPath,
        fixture,
      ],
      { encoding: 'utf8' },
    )
    expect(JSON.parse(message)).toEqual({ status: 507, code: 'full', left: [], after: 404, faults: [] })
  })

  it('does not write a complete file again, however many uploads came after it', async () => {
    const first = { path: 'first', upload: 'job_0000', size: 1, offset: 0 }
    const open = { path: 'open', upload: 'job_0001', size: 2 }
    await put(first, 'x')
    await put({ ...open, offset: 0 }, 'a')
    for (let at = 2; at < 260; at++)
      await put({ path: 'other', upload: `job_${String(at).padStart(4, '0')}`, size: 0, offset: 0 }, '')
    writeFileSync(join(workspace, 'first'), 'changed since')
    expect(await put(first, 'x')).toMatchObject({ status: 410, value: { code: 'gone' } })
    expect(readFileSync(join(workspace, 'first'), 'utf8')).toBe('changed since')
    expect((await put({ ...open, offset: 1 }, 'b')).value.committed).toBe(true)
    expect((await put({ ...first, upload: 'job_9999' }, 'y')).value.committed).toBe(true)
  })

  it('limits the number of uploads, and drops those that no client continues', async () => {
    await served[Symbol.asyncDispose]()
    served = new Served(fileRoutes({ workspace, clock: systemClock, uploadIdleMs: 4_000 }))
    for (let at = 0; at < LIMITS.uploads; at++)
      expect((await put({ path: `f${at}`, upload: `u${at}`, size: 2, offset: 0 }, 'x')).status).toBe(200)
    expect(await put({ path: 'more', upload: 'more', size: 2, offset: 0 }, 'x')).toMatchObject({
      status: 503,
    })
    while (readdirSync(workspace).length > 0) await sleep(20)
    expect((await put({ path: 'more', upload: 'more', size: 1, offset: 0 }, 'x')).status).toBe(200)
  })

  it('refuses ids and numbers that are not valid', async () => {
    for (const query of [
      { path: 'a', upload: '../x', size: 1 },
      { path: 'a', upload: '', size: 1 },
      { path: 'a', upload: 'u' },
      { path: 'a', upload: 'u', size: -1 },
      { path: 'a', upload: 'u', size: '1e3' },
      { path: 'a', upload: 'u', size: 1, mode: 99999 },
    ])
      expect((await put(query as Record<string, string | number>, 'x')).status).toBe(400)
    expect((await state('unknown')).status).toBe(404)
  })
})

describe('stat and list', () => {
  it('report what exists without following links', async () => {
    symlinkSync('/etc/passwd', join(workspace, 'link'))
    const { value } = await served.json<FileStat>('GET', '/files/stat', { path: 'link' })
    expect(value).toMatchObject({ path: join(workspace, 'link'), type: 'link', target: '/etc/passwd' })
    expect((await served.json('GET', '/files/stat', { path: 'nope' })).status).toBe(404)
  })

  it('list a large folder in order, page by page, each entry once', async () => {
    const folder = join(workspace, 'many')
    mkdirSync(folder)
    for (let at = 0; at < 3000; at++) writeFileSync(join(folder, `f${(at * 7919) % 3000}`), '')
    const names: string[] = []
    let after = ''
    for (;;) {
      const { value } = await served.json<FileList>('GET', '/files/list', { path: 'many', after, limit: 700 })
      expect(value.entries.length).toBeLessThanOrEqual(700)
      names.push(...value.entries.map((entry) => entry.path.slice(folder.length + 1)))
      if (value.next === undefined) break
      after = value.next
    }
    expect(names).toEqual(readdirSync(folder).sort())
  })

  it('keep a response below the host’s limit, whatever the names are', async () => {
    for (let at = 0; at < 900; at++) writeFileSync(join(workspace, `${at}${'\x01'.repeat(240)}`), '')
    const { body } = await served.ask('GET', '/files/list', { path: '.' })
    expect(body.length).toBeLessThanOrEqual(LIMITS.jsonBytes)
    expect((JSON.parse(body.toString()) as FileList).next).toBeDefined()
  })
})

describe('changing files', () => {
  const post = (what: string, body: unknown) => served.json<Failure>('POST', `/files/${what}`, {}, body)

  it('moves, creates and removes', async () => {
    writeFileSync(join(workspace, 'a'), 'x')
    expect((await post('mkdir', { path: 'p/q', parents: true })).status).toBe(200)
    expect((await post('mkdir', { path: 'p/q' })).value.code).toBe('conflict')
    expect((await post('move', { from: 'a', to: 'p/q/b' })).status).toBe(200)
    expect(readFileSync(join(workspace, 'p/q/b'), 'utf8')).toBe('x')
    expect((await post('remove', { path: 'p' })).value.code).toBe('conflict')
    expect((await post('remove', { path: 'p', recursive: true })).status).toBe(200)
    expect((await post('remove', { path: 'p', recursive: true })).value.code).toBe('not_found')
    expect(readdirSync(workspace)).toEqual([])
  })

  it('moves a folder to another file system', async () => {
    const other = mkdtempSync('/dev/shm/craik-')
    try {
      mkdirSync(join(workspace, 'd'))
      writeFileSync(join(workspace, 'd/f'), 'x')
      symlinkSync('f', join(workspace, 'd/l'))
      expect(statSync(other).dev).not.toBe(statSync(workspace).dev)
      expect((await post('move', { from: 'd', to: join(other, 'd') })).status).toBe(200)
      expect(readFileSync(join(other, 'd/f'), 'utf8')).toBe('x')
      expect(readlinkSync(join(other, 'd/l'))).toBe('f')
      expect(readdirSync(workspace)).toEqual([])
      expect(readdirSync(other)).toEqual(['d'])
    } finally {
      rmSync(other, { recursive: true })
    }
  })

  it('removes a link and not its target', async () => {
    mkdirSync(join(workspace, 'kept'))
    writeFileSync(join(workspace, 'kept/f'), 'x')
    symlinkSync('kept', join(workspace, 'link'))
    expect((await post('remove', { path: 'link', recursive: true })).status).toBe(200)
    expect(readdirSync(join(workspace, 'kept'))).toEqual(['f'])
  })

  it('refuses bodies that are not valid', async () => {
    for (const body of [null, [], 'x', {}, { path: 1 }, { path: '' }, { path: 'a', recursive: 'yes' }])
      expect((await post('remove', body)).value.code).toBe('usage')
  })
})
