import { Duplex, duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { REFERENCE } from '../../lib/ids.ts'
import {
  describeRefused,
  describeSurplus,
  destinationsOf,
  type InboundRefusal,
  refuseAll,
  targetOf,
} from './refuse-inbound.ts'

describe('connections from the sandbox', () => {
  it('get a response with their destination and the reason', async () => {
    const written: InboundRefusal[] = []
    const refusals = refuseAll(async (refused) => void written.push(refused))
    const [outer, inner] = duplexPair()
    refusals.handle(outer)
    inner.write('CONNECT collector.example:443 HTTP/1.1\r\nHost: collector.example:443\r\n\r\n')
    const answer = await text(inner)
    expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/)
    expect(answer).toContain('blocked by craik: egress to collector.example:443 is not allowed\n')
    await refusals.close()
    expect(written).toEqual([{ count: 1, targets: new Map([['collector.example:443', 1]]), unparsable: 0 }])
  })

  it('are all counted, and recorded rarely, however many arrive at once', async () => {
    const written: number[] = []
    const refusals = refuseAll(async ({ count }) => void written.push(count))
    for (let i = 0; i < 500; i++) refusals.handle(duplexPair()[0])
    await refusals.close()
    expect(written.reduce((sum, count) => sum + count, 0)).toBe(500)
    expect(written.length).toBeLessThanOrEqual(3)
  })

  it('beyond the limit get a response that says so, and are recorded by number', async () => {
    const [written, refused]: [number[], InboundRefusal[]] = [[], []]
    const refusals = refuseAll(
      async (each) => void refused.push(each),
      async () => {},
      async (count) => void written.push(count),
    )
    const [outer, inner] = duplexPair()
    refusals.surplus(outer)
    expect(await text(inner)).toMatch(
      /^HTTP\/1\.1 503 Service Unavailable\r\n[\s\S]*blocked by craik: 128 connections of this sandbox are open/,
    )
    for (let i = 0; i < 200; i++) refusals.surplus(duplexPair()[0])
    await refusals.close()
    expect(written.reduce((sum, count) => sum + count, 0)).toBe(201)
    expect(written.length).toBeLessThanOrEqual(3)
    expect(refused).toEqual([])
    expect(describeSurplus(201)).toBe('201 connections from the sandbox refused: 128 were open')
  })

  async function connect({ handle }: ReturnType<typeof refuseAll>, target: string): Promise<void> {
    const [outer, inner] = duplexPair()
    handle(outer)
    inner.write(`CONNECT ${target} HTTP/1.1\r\n\r\n`)
    await text(inner)
  }

  it('are reported by destination, the first few by name and the others by number', async () => {
    const written: InboundRefusal[] = []
    const refusals = refuseAll(async (refused) => void written.push(refused))
    await connect(refusals, 'a.example:443')
    for (let i = 0; i < 12; i++) await connect(refusals, `evil${i % 8}.example:443`)
    await refusals.close()
    expect(written.map(describeRefused)).toEqual([
      '1 connection from the sandbox refused, to a.example:443',
      '12 connections from the sandbox refused: 2 to evil0.example:443, 2 to evil1.example:443, ' +
        '2 to evil2.example:443, 2 to evil3.example:443, 1 to evil4.example:443, and 3 more',
    ])
  })

  it('are recorded by host and port, or as unparsable', async () => {
    const written: InboundRefusal[] = []
    const refusals = refuseAll(async (refused) => void written.push(refused))
    for (const target of ['a.example:443', 'a.example:443', '"; DROP TABLE', '[::1]:443'])
      await connect(refusals, target)
    await refusals.close()
    const named = written.flatMap(destinationsOf)
    expect(named.filter(({ destination }) => destination === 'a.example:443')).not.toEqual([])
    expect(new Set(named.map(({ destination }) => destination))).toEqual(
      new Set(['a.example:443', 'unparsable']),
    )
    expect(named.reduce((sum, { count }) => sum + count, 0)).toBe(4)
  })

  it('that could not be recorded are recorded with the next', async () => {
    const written: InboundRefusal[] = []
    let isFull = true
    const refusals = refuseAll(async (refused) => {
      if (isFull) throw new Error('the disk is full')
      written.push(refused)
    })
    await connect(refusals, 'a.example:443')
    isFull = false
    await connect(refusals, 'b.example:443')
    await refusals.close()
    expect(written.reduce((sum, { count }) => sum + count, 0)).toBe(2)
  })

  it('that never stop are recorded more and more rarely, until they do', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    try {
      const written: number[] = []
      const refusals = refuseAll(async ({ count }) => void written.push(count))
      const refuse = async (ms: number) => {
        const gone = duplexPair()[0]
        refusals.handle(gone.destroy())
        await vi.advanceTimersByTimeAsync(ms)
      }
      for (let i = 0; i < 600; i++) await refuse(1_000)
      // Receipts come after about 0, 1, 3, 7, 15, 31 and 63 seconds, then once a minute.
      expect(written.length).toBeLessThanOrEqual(18)
      await vi.advanceTimersByTimeAsync(120_000)
      expect(written.reduce((sum, count) => sum + count, 0)).toBe(600)
      const before = written.length
      await refuse(1_000)
      await refuse(1_000)
      expect(written.length).toBe(before + 2)
      await refusals.close()
    } finally {
      vi.useRealTimers()
    }
  })

  it('that send nothing, or never stop sending, are closed and not buffered', async () => {
    const refusals = refuseAll(async () => {})
    const silent = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    refusals.handle(silent)
    let sent = 0
    const endless = new Duplex({
      read(size) {
        sent += size
        setImmediate(() => this.push(Buffer.alloc(size, 'x')))
      },
      write: (_chunk, _encoding, done) => done(),
    })
    refusals.handle(endless)
    await new Promise((resolve) => endless.once('finish', resolve))
    await refusals.close()
    expect(silent.destroyed && endless.destroyed).toBe(true)
    expect(sent).toBeLessThan(100 * 1024 ** 2)
  })

  it.each([
    ['CONNECT example.com:443 HTTP/1.1\r\n', 'example.com:443'],
    ['GET http://Example.com/path?token=x HTTP/1.1\r\n', 'example.com:80'],
    ['GET / HTTP/1.1\r\nAccept: */*\r\nHost: inner.test:8080\r\n\r\n', 'inner.test:8080'],
    ['CONNECT EXAMPLE.com.:443 HTTP/1.1\r\n', 'example.com:443'],
    ['GET https://example.com/ HTTP/1.1\r\n', 'example.com:443'],
    ['GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n', undefined],
    ['GET / HTTP/1.1\r\n\r\nHost: in-the-body.test\r\n', undefined],
    [`CONNECT ${'a'.repeat(64)}.example:443 HTTP/1.1\r\n`, undefined],
    [`CONNECT ${'a.'.repeat(100)}example:443 HTTP/1.1\r\n`, undefined],
    ['CONNECT a..example:443 HTTP/1.1\r\n', undefined],
    ['CONNECT example.com HTTP/1.1\r\n', undefined],
    ['CONNECT example.com:99999 HTTP/1.1\r\n', undefined],
    ['CONNECT evil\u0000.com:443 HTTP/1.1\r\n', undefined],
    ['CONNECT [::1]:443 HTTP/1.1\r\n', undefined],
    ['GET http://user:password@example.com/ HTTP/1.1\r\n', undefined],
    ['\x16\x03\x01', undefined],
    ['', undefined],
  ])('%j has the destination %j', (head, target) => expect(targetOf(head)).toBe(target))

  it('never have a destination that is not a valid reference', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (host) => {
        for (const head of [`CONNECT ${host} HTTP/1.1\r\n`, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`]) {
          const target = targetOf(head)
          if (target !== undefined) expect(target).toMatch(REFERENCE)
        }
      }),
    )
  })
})
