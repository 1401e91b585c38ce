import { Duplex, PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RelayStream } from './relay-stream.ts'

const frame = (output: number, payload: string | Buffer): Buffer => {
  const body = Buffer.from(payload)
  const header = Buffer.alloc(8)
  header.writeUInt8(output, 0)
  header.writeUInt32BE(body.length, 4)
  return Buffer.concat([header, body])
}

/** Simulates the engine's side of the connection. */
function pair() {
  const [fromEngine, toEngine] = [new PassThrough(), new PassThrough()]
  const stream = new RelayStream(Duplex.from({ readable: fromEngine, writable: toEngine }))
  return { stream, fromEngine, toEngine }
}

describe('the stream of a relay', () => {
  it('joins the standard output, wherever the engine splits it', async () => {
    const piece = fc.record({ output: fc.constantFrom(1, 2), payload: fc.string({ maxLength: 40 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(piece), fc.array(fc.integer({ min: 1, max: 17 })), async (pieces, cuts) => {
        const { stream, fromEngine } = pair()
        const sent = Buffer.concat(pieces.map(({ output, payload }) => frame(output, payload)))
        const out = text(stream)
        for (let at = 0, i = 0; at < sent.length; i++) {
          const size = cuts[i % cuts.length] ?? sent.length
          fromEngine.write(sent.subarray(at, at + size))
          at += size
        }
        fromEngine.end()
        const expected = pieces.filter(({ output }) => output === 1).map(({ payload }) => payload)
        expect(await out).toBe(expected.join(''))
        expect(stream.bytesRead).toBe(Buffer.byteLength(expected.join('')))
      }),
    )
  })

  it('writes to standard input without headers, and signals the end', async () => {
    const { stream, toEngine } = pair()
    stream.write('one')
    stream.end('two')
    expect(await text(toEngine)).toBe('onetwo')
    expect(stream.bytesWritten).toBe(6)
  })

  it('stores only the beginning of standard error', async () => {
    const { stream, fromEngine } = pair()
    fromEngine.write(frame(2, `no\n${'x'.repeat(100_000)}`))
    fromEngine.end(frame(1, 'out'))
    expect(await text(stream)).toBe('out')
    expect(stream.output).toMatch(/^no x{2000,2048}$/)
  })

  it('reads only as much as its reader consumes', async () => {
    const { stream, fromEngine } = pair()
    const payload = Buffer.alloc(64 * 1024)
    let taken = 0
    stream.read(0)
    while (taken < 1000 && fromEngine.write(frame(1, payload))) {
      taken++
      await turn()
    }
    expect(taken).toBeLessThan(100)
    stream.destroy()
  })

  it('fails when the engine sends unexpected data', async () => {
    const { stream, fromEngine } = pair()
    fromEngine.write('HTTP/1.1 500 no\r\n')
    await expect(text(stream)).rejects.toThrow(/sent an invalid stream/)
  })

  it('ends on both sides when it is destroyed', async () => {
    const { stream, toEngine } = pair()
    stream.destroy()
    await turn()
    await turn()
    expect(toEngine.destroyed).toBe(true)
  })
})
