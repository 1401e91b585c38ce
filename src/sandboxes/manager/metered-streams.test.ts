import { createServer, connect as dial } from 'node:net'
import { Duplex, duplexPair, PassThrough, Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { meterDuplex, meterStream, type StreamEnd, sendMetered } from './metered-streams.ts'

describe('a metered stream', () => {
  const meter = (source: Readable) => {
    const ends: [StreamEnd['end'], number][] = []
    return { ends, stream: meterStream(source, ({ end }, bytes) => ends.push([end, bytes])) }
  }

  it('reports once that it ended whole', async () => {
    const { ends, stream } = meter(Readable.from([Buffer.alloc(70_000), Buffer.alloc(30_000)]))
    expect((await buffer(stream)).length).toBe(100_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(ends).toEqual([['whole', 100_000]])
  })

  it('reports that it broke off, and its reader gets the error', async () => {
    const source = new PassThrough()
    const { ends, stream } = meter(source)
    const reading = buffer(stream)
    source.write('half')
    setImmediate(() => source.destroy(new Error('gone')))
    await expect(reading).rejects.toThrow('gone')
    expect(ends).toEqual([['broken', 4]])
  })

  it('breaks off when its source closes without an end', async () => {
    const source = new PassThrough()
    const { ends, stream } = meter(source)
    const reading = buffer(stream)
    setImmediate(() => source.destroy())
    await expect(reading).rejects.toMatchObject({ code: 'boundary_failed' })
    expect(ends).toEqual([['broken', 0]])
  })

  it('closes its source when the reader stops', async () => {
    const source = new PassThrough()
    const { ends, stream } = meter(source)
    source.write('x')
    stream.destroy()
    await new Promise((resolve) => source.once('close', resolve))
    expect(ends[0]?.[0]).toBe('left')
    expect(source.destroyed).toBe(true)
  })

  it('does not read ahead of its reader', async () => {
    let made = 0
    const source = new Readable({
      read(size) {
        made += size
        this.push(Buffer.alloc(size))
      },
    })
    const { stream } = meter(source)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(made).toBeLessThan(1024 ** 2)
    stream.destroy()
  })
})

describe('a metered stream of two directions', () => {
  it('counts both, and lets each end independently', async () => {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      void text(socket).then((output) => socket.end(output.toUpperCase()))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const socket = dial({ port, host: '127.0.0.1', allowHalfOpen: true })
    const closed = Promise.withResolvers<Error | undefined>()
    const { stream, bytes } = meterDuplex(socket, closed.resolve)
    stream.end('hello')
    expect(await text(stream)).toBe('HELLO')
    expect(await closed.promise).toBeUndefined()
    expect(bytes).toEqual({ in: 5, out: 5 })
    server.close()
  })

  it('ends when the other side is gone', async () => {
    const [inner] = duplexPair()
    const closed = Promise.withResolvers<Error | undefined>()
    const { stream } = meterDuplex(inner, closed.resolve)
    inner.destroy(new Error('reset'))
    expect(await closed.promise).toMatchObject({ message: 'reset' })
    expect(stream.destroyed).toBe(true)
  })
})

describe('sending through a meter', () => {
  it('counts everything that arrived', async () => {
    let sent = 0
    const answer = await sendMetered(
      Readable.from([Buffer.alloc(1000)]),
      async (body) => (await buffer(body)).length,
      (bytes) => {
        sent += bytes
      },
    )
    expect([answer, sent]).toEqual([1000, 1000])
  })

  it('reports what has crossed while more is to come, and each byte once', async () => {
    const reported: number[] = []
    const rest = Promise.withResolvers<void>()
    const parts = async function* () {
      yield Buffer.alloc(1024 * 1024)
      yield Buffer.alloc(1000)
      await rest.promise
      yield Buffer.alloc(500)
    }
    const sending = sendMetered(
      Readable.from(parts()),
      async (body) => (await buffer(body)).length,
      (bytes) => {
        reported.push(bytes)
        rest.resolve()
      },
    )
    expect(await sending).toBe(1024 * 1024 + 1500)
    expect(reported[0]).toBe(1000)
    expect(reported.reduce((sum, bytes) => sum + bytes, 0)).toBe(1024 * 1024 + 1500)
  })

  it('never counts what may not have crossed when the transfer broke off', async () => {
    let sent = 0
    const body = Readable.from([Buffer.alloc(1000)])
    const failing = sendMetered(
      body,
      async (metered) => {
        await buffer(metered)
        throw new Error('lost')
      },
      (bytes) => {
        sent += bytes
      },
    )
    await expect(failing).rejects.toThrow('lost')
    expect(sent).toBe(0)
  })

  it('fails when the body ends early', async () => {
    const body = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    const failing = sendMetered(
      body,
      (metered) => buffer(metered),
      () => {},
    )
    body.push('half')
    setImmediate(() => body.destroy())
    await expect(failing).rejects.toThrow('ended early')
  })
})
