/** Tests the events of a folder, followed as the host does. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import type { ClientHttp2Stream } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../lib/clock.ts'
import { responseOf, Served } from '../network/served.fixture.ts'
import { LIMITS, type WatchEvent } from '../protocol.ts'
import { fileRoutes } from './routes.ts'

let folder: string
let served: Served

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-watch-'))
  served = new Served(fileRoutes({ workspace: folder, clock: systemClock }))
})
afterEach(async () => {
  await served[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
  expect(served.faults).toEqual([])
})

class Follower {
  readonly stream: ClientHttp2Stream
  readonly events: WatchEvent[] = []
  #rest = ''
  #wake = () => {}
  ended = false

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream
    stream.on('data', (chunk: Buffer) => {
      const lines = (this.#rest + chunk.toString('utf8')).split('\n')
      this.#rest = lines.pop()!
      for (const line of lines) this.events.push(JSON.parse(line) as WatchEvent)
      this.#wake()
    })
    stream.once('close', () => {
      this.ended = true
      this.#wake()
    })
  }

  async until(done: (events: readonly WatchEvent[]) => boolean): Promise<readonly WatchEvent[]> {
    while (!done(this.events) && !this.ended) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
    return this.events
  }

  saw(type: WatchEvent['type'], path: string): Promise<readonly WatchEvent[]> {
    return this.until((events) =>
      events.some((event) => event.type === type && event.path === join(folder, path)),
    )
  }
}

async function follow(
  query: Record<string, string | number> = {},
): Promise<Follower & { readonly at: number }> {
  const stream = served.open('GET', '/files/watch', { path: '.', recursive: 1, ...query })
  const headers = await responseOf(stream)
  expect(headers[':status']).toBe(200)
  const follower = new Follower(stream)
  if (query.after !== undefined) return Object.assign(follower, { at: Number(query.after) })
  // The first event gives a new reader its start position.
  const [begin] = await follower.until((events) => events.length > 0)
  expect(begin).toMatchObject({ type: 'gap', path: folder })
  return Object.assign(follower, { at: begin!.seq })
}

describe('a watch', () => {
  it('reports files that are created, changed and removed, in numbered order', async () => {
    const follower = await follow()
    writeFileSync(join(folder, 'a'), '1')
    await follower.saw('created', 'a')
    writeFileSync(join(folder, 'a'), '2')
    await follower.saw('changed', 'a')
    rmSync(join(folder, 'a'))
    const events = await follower.saw('removed', 'a')
    expect(events.map(({ seq }) => seq)).toEqual(events.map(({ seq }) => seq).toSorted((a, b) => a - b))
    expect(new Set(events.map(({ seq }) => seq)).size).toBe(events.length)
  })

  it('reports the content of folders that appear later, and forgets removed folders', async () => {
    mkdirSync(join(folder, 'old/inner'), { recursive: true })
    const follower = await follow()
    writeFileSync(join(folder, 'old/inner/x'), '')
    await follower.saw('created', 'old/inner/x')
    mkdirSync(join(folder, 'new/deep'), { recursive: true })
    writeFileSync(join(folder, 'new/deep/y'), '')
    await follower.saw('created', 'new/deep/y')
    renameSync(join(folder, 'new'), join(folder, 'moved'))
    await follower.saw('removed', 'new')
    await follower.saw('created', 'moved/deep/y')
    writeFileSync(join(folder, 'moved/deep/z'), '')
    await follower.saw('created', 'moved/deep/z')
  })

  it('ignores subfolders unless it is recursive', async () => {
    mkdirSync(join(folder, 'sub'))
    const follower = await follow({ recursive: 0 })
    writeFileSync(join(folder, 'sub/hidden'), '')
    writeFileSync(join(folder, 'plain'), '')
    const events = await follower.saw('created', 'plain')
    expect(events.some(({ path }) => path.endsWith('hidden'))).toBe(false)
  })

  it('continues for a reader that returns, even one that had received no event yet', async () => {
    const first = await follow()
    first.stream.close(8)
    await first.until(() => false)
    writeFileSync(join(folder, 'meanwhile'), '')
    const second = await follow({ after: first.at })
    const events = await second.saw('created', 'meanwhile')
    expect(events.some(({ type }) => type === 'gap')).toBe(false)
  })

  it('reports a gap when it cannot determine what a reader missed', async () => {
    const follower = await follow({ after: 12 })
    const [event] = await follower.until((events) => events.length > 0)
    expect(event).toMatchObject({ type: 'gap', path: folder })
    writeFileSync(join(folder, 'after'), '')
    await follower.saw('created', 'after')
  })

  it('keeps a limited number of events, and a reader that fell behind gets a gap and the rest', async () => {
    const follower = await follow({ recursive: 0 })
    follower.stream.close(8)
    await follower.until(() => false)
    const lastSeen = await follow({ recursive: 0, after: follower.at })
    writeFileSync(join(folder, 'a'), '')
    // Each rename causes at least one event, however many are read at once.
    for (let at = 0; at < LIMITS.watchEvents + 500; at++) {
      renameSync(join(folder, at % 2 === 0 ? 'a' : 'b'), join(folder, at % 2 === 0 ? 'b' : 'a'))
      // Gives Node time to read the kernel's own queue, which is limited, too.
      if (at % 500 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const last = join(folder, 'last')
    mkdirSync(last)
    await lastSeen.until((events) => events.at(-1)?.path === last)
    const later = await follow({ recursive: 0, after: follower.at })
    const events = await later.until((seen) => seen.at(-1)?.path === last)
    expect(events[0]).toMatchObject({ type: 'gap' })
    expect(events.length).toBeLessThanOrEqual(LIMITS.watchEvents + 1)
  })

  it('ends when the folder that it watches is removed', async () => {
    const follower = await follow()
    rmSync(folder, { recursive: true })
    const events = await follower.until(() => false)
    expect(events.at(-1)).toMatchObject({ type: 'removed', path: folder })
  })

  it('refuses a path that does not exist, and more paths than its limit', async () => {
    expect((await served.ask('GET', '/files/watch', { path: 'nowhere' })).status).toBe(404)
    const statuses: (number | undefined)[] = []
    for (let at = 0; at < 40; at++) {
      mkdirSync(join(folder, `w${at}`))
      const stream = served.open('GET', '/files/watch', { path: `w${at}` })
      statuses.push((await responseOf(stream))[':status'])
    }
    expect(statuses.slice(0, 32).every((status) => status === 200)).toBe(true)
    expect(statuses.slice(32).every((status) => status === 503)).toBe(true)
  })
})
