import { once } from 'node:events'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { encodeFrame, FRAME } from '../../lib/frames.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { expectCraikError, hostileSidecar, http2Frame, JOB, sendJson } from './hostile-sidecar.fixture.ts'
import { guardPieces } from './pieces.ts'

const MB = 1024 * 1024
const GIGABYTE = 1024 * MB
const DATA = 0

describe('a reader that does not read', () => {
  it('receives no more than its window of a gigabyte', async () => {
    const frame = encodeFrame(FRAME.stdout, Buffer.alloc(64 * 1024))
    let poured = 0
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'GET /jobs') return sendJson(stream, 200, { jobs: [] })
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200 })
      const pour = () => {
        while (poured < GIGABYTE && !stream.destroyed) {
          poured += frame.length
          if (!stream.write(frame)) return
        }
      }
      stream.on('drain', pour)
      pour()
    })
    const readers = await Promise.all(
      Array.from({ length: 8 }, () => hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)),
    )
    // Each answer proves that the connection is free, and that everything that could be sent before it was sent.
    for (let i = 0; i < 100; i++) await hostile.boundary.jobs.list(NEVER_ABORTED)
    const { bytesIn } = hostile.boundary.counts()
    expect(bytesIn).toBeGreaterThan(readers.length * (LIMITS.streamWindowBytes / 2))
    expect(bytesIn).toBeLessThan(readers.length * LIMITS.streamWindowBytes * 2)
    for (const reader of readers)
      expect(reader.readableLength).toBeLessThanOrEqual(2 * LIMITS.streamWindowBytes)
  })

  it('is disconnected from a sidecar that sends more than its window', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200 })
      const chunk = http2Frame(DATA, 0, stream.id!, encodeFrame(FRAME.stdout, Buffer.alloc(16_000)))
      let poured = 0
      const pour = () => {
        while (poured < GIGABYTE && !hostile.inside.destroyed) {
          poured += chunk.length
          if (!hostile.inside.write(chunk)) return
        }
      }
      hostile.inside.on('drain', pour)
      setImmediate(pour)
    })
    const reader = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    await hostile.boundary.closed
    expect((await expectCraikError(reader.toArray())).code).toBe('boundary_failed')
    expect(hostile.boundary.counts().bytesIn).toBeLessThan(16 * MB)
  })

  it('fails when its bytes arrive one by one, which would take a hundred times their size', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200 })
      setImmediate(() => hostile.inside.write(singleByteFrames(stream.id!, 20_000)))
    })
    const reader = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    const port = await hostile.boundary.inside.connect(80, NEVER_ABORTED)
    for (const stream of [reader, port]) {
      if (!stream.errored) await once(stream, 'close').catch(() => {})
      expect(stream.errored).toMatchObject({
        code: 'boundary_failed',
        message: expect.stringMatching(/the stream ended early/),
      })
    }
  })

  it('does not keep a large buffer for a small piece of it', () => {
    const stream = new Readable({ read() {} })
    guardPieces(stream, 6, () => {})
    const large = Buffer.alloc(64 * 1024)
    stream.push(large.subarray(0, 10))
    stream.push(large)
    expect((stream.read(10) as Buffer).buffer.byteLength).toBe(10)
    expect((stream.read() as Buffer).buffer).toBe(large.buffer)
  })
})

/** Returns the start of a job frame, with each byte in an HTTP/2 frame of its own. */
function singleByteFrames(stream: number, bytes: number): Buffer {
  const frame = encodeFrame(FRAME.stdout, Buffer.alloc(200 * 1024))
  return Buffer.concat(
    Array.from({ length: bytes }, (_, at) => http2Frame(DATA, 0, stream, frame.subarray(at, at + 1))),
  )
}
