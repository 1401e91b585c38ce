import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InputWindow } from './input-window.ts'

const never = () => new AbortController().signal

async function collect(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of source) chunks.push(chunk)
  return Buffer.concat(chunks)
}

describe('the input window', () => {
  it('returns the rest from any offset that is not acknowledged, however the input arrived', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ minLength: 0, maxLength: 50 }), { maxLength: 20 }),
        fc.nat(1000),
        fc.nat(1000),
        async (parts, acknowledged, from) => {
          const whole = Buffer.concat(parts)
          const window = new InputWindow(
            Readable.from(
              parts.map((part) => Buffer.from(part)),
              { objectMode: true },
            ),
            0,
          )
          const at = Math.min(Math.max(acknowledged, from), whole.length)
          window.resumeAt(Math.min(acknowledged, whole.length))
          expect(await collect(window.from(at, never()))).toEqual(whole.subarray(at))
        },
      ),
    )
  })

  it('reads no more than its limit', async () => {
    let produced = 0
    const source = new Readable({
      highWaterMark: 1,
      read() {
        produced += 64 * 1024
        this.push(Buffer.alloc(64 * 1024))
      },
    })
    const window = new InputWindow(source, 0)
    const reader = window.from(0, never())
    let taken = 0
    while (taken < 1024 * 1024) taken += ((await reader.next()).value as Buffer).length
    await new Promise((done) => setTimeout(done, 20))
    expect(produced).toBeLessThan(1024 * 1024 + 5 * 64 * 1024)
    window.acknowledge(512 * 1024)
    while (taken < 1.5 * 1024 * 1024) taken += ((await reader.next()).value as Buffer).length
    window.close()
    await reader.return(undefined)
  })

  it('begins at the job’s current offset when other clients fed it before', async () => {
    const window = new InputWindow(Readable.from([Buffer.from('abc')]), undefined)
    // An acknowledgement of other clients' input means nothing for this input.
    window.acknowledge(500)
    window.resumeAt(500)
    window.acknowledge(501)
    expect((await collect(window.from(501, never()))).toString()).toBe('bc')
  })

  it('stops waiting when the signal aborts', async () => {
    const window = new InputWindow(new Readable({ read() {} }), 0)
    const controller = new AbortController()
    const waiting = collect(window.from(0, controller.signal))
    controller.abort(new Error('left'))
    await expect(waiting).rejects.toThrow('left')
    window.close()
  })

  it('reports how much of it has not arrived, wherever in a job’s input it begins', async () => {
    for (const base of [0, 100]) {
      const window = new InputWindow(Readable.from([Buffer.from('abc'), Buffer.from('def')]), undefined)
      expect(window.resumeAt(base)).toBe(true)
      await collect(window.from(base, never()))
      expect(window.unsentBytes(undefined)).toBe(6)
      window.acknowledge(base + 2)
      expect(window.unsentBytes(undefined)).toBe(4)
      expect([0, 5, 6, 1000].map((arrived) => window.unsentBytes(base + arrived))).toEqual([6, 1, 0, 0])
      expect(window.resumeAt(base + 4)).toBe(false)
      expect(window.unsentBytes(undefined)).toBe(2)
    }
  })
})
