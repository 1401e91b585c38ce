import { closeSync, openSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FRAME, type Frame, FrameReader } from '../../lib/frames.ts'
import { LIMITS } from '../protocol.ts'
import { framesOf, lengthInLog, outputOf, sh, TestHost, until } from '../sidecar.fixture.ts'

let host: TestHost
beforeAll(async () => {
  host = await TestHost.start()
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
})

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** Collects garbage first, so that only buffers in use count. */
function arrayBufferBytes(): number {
  collect()
  return process.memoryUsage().arrayBuffers
}

/** Writes about 1 MB, more than the log's memory, in pieces of many sizes on both outputs. */
const TALKING =
  'i=0; while [ $i -lt 150 ]; do head -c $((i * 99)) /dev/zero; echo "out $i"; echo "err $i" >&2; i=$((i+1)); done; exit 5'

describe('following a job', () => {
  it('delivers every byte exactly once, wherever the connection is cut', async () => {
    const id = await host.start(sh(TALKING))
    const whole = await host.ask('GET', `/jobs/${id}/output`)
    expect(outputOf(whole.body).result.exitCode).toBe(5)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 400_000 }), { maxLength: 8 }), async (cuts) => {
        const parts: Frame[] = []
        for (const bytes of [...cuts, Number.POSITIVE_INFINITY]) {
          parts.push(...(await readSome(id, lengthInLog(parts), bytes)))
        }
        expect(lengthInLog(parts)).toBe(whole.body.length)
        expect(payloadsOf(parts).equals(payloadsOf(framesOf(whole.body)))).toBe(true)
        expect(parts.map((frame) => frame.type)).toEqual(framesOf(whole.body).map((frame) => frame.type))
      }),
      { numRuns: 8 },
    )
  })

  it('continues while the job writes and the connection is cut again and again', async () => {
    const id = await host.start(sh('i=0; while [ $i -lt 30000 ]; do echo "line $i"; i=$((i+1)); done'))
    const parts: Frame[] = []
    while (parts.at(-1)?.type !== FRAME.exit) {
      // This is more than one frame. Otherwise the reader would never advance.
      parts.push(...(await readSome(id, lengthInLog(parts), 70_000)))
      host.session.destroy()
      host.connect()
    }
    const text = Buffer.concat(
      parts.filter((frame) => frame.type === FRAME.stdout).map((frame) => frame.payload),
    )
    expect(text.toString()).toBe(Array.from({ length: 30_000 }, (_, index) => `line ${index}\n`).join(''))
  })

  it('leaves no file in the spill folder', async () => {
    await host.run(sh('head -c 2000000 /dev/zero'))
    expect(readdirSync(join(host.folder, 'spill'))).toEqual([])
  })

  it('stores unread output on the disk, not in memory', async () => {
    const bytes = 64 * 1024 * 1024
    const before = arrayBufferBytes()
    const id = await host.start(sh(`head -c ${bytes} /dev/zero`))
    // This reader takes the beginning and then stops reading.
    const stalled = host.request('GET', `/jobs/${id}/output`)
    stalled.end()
    await until(async () => (await status(id)).state === 'ended')
    expect(arrayBufferBytes() - before).toBeLessThan(32 * 1024 * 1024)
    stalled.close()
    const { result, stdout } = await host.output(id)
    expect(result.stdoutBytes).toBe(bytes)
    expect(stdout.length).toBe(bytes)
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('keeps little of the output that its reader acknowledges', async () => {
    const bytes = 50_000_000
    const id = host.newJobId()
    const stream = host.request('PUT', `/jobs/${id}?attach=1`)
    stream.end(JSON.stringify({ kind: 'exec', argv: ['head', '-c', `${bytes}`, '/dev/zero'] }))
    const reader = new FrameReader()
    let position = 0
    let taken = 0
    let exit: Buffer | undefined
    let acknowledged = 0
    let acknowledging: Promise<unknown> | undefined
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (const { type, payload } of reader.push(chunk)) {
        if (type >= FRAME.gap) continue
        position += 5 + payload.length
        if (type === FRAME.stdout) taken += payload.length
        else exit = Buffer.from(payload)
      }
      if (position - acknowledged < 4_000_000 || acknowledging) continue
      acknowledged = position
      acknowledging = host.ask('POST', `/jobs/${id}/ack?position=${position}`).then(() => {
        acknowledging = undefined
      })
    }
    expect(taken).toBe(bytes)
    expect(JSON.parse(String(exit))).toMatchObject({ outcome: 'exited', exitCode: 0, stdoutBytes: bytes })
    await host.ask('POST', `/jobs/${id}/ack?position=${position}`)
    const { first } = await status(id)
    expect(position - first).toBeLessThan(2 * LIMITS.logMemoryBytes + 100_000)
    // A later reader gets a gap for the missing output, and the exit frame.
    const later = framesOf((await host.ask('GET', `/jobs/${id}/output`)).body)
    expect(JSON.parse(later[0]!.payload.toString())).toEqual({ from: 0, to: first })
    expect(later.at(-1)?.type).toBe(FRAME.exit)
  })

  it('serves many readers at once, each from its own position', async () => {
    const id = host.newJobId()
    const readers = [host.run(sh('for i in 1 2 3 4 5; do echo $i; sleep 0.05; done'), id)]
    await until(async () => (await host.ask('GET', `/jobs/${id}`)).status === 200)
    for (let index = 0; index < 20; index++) readers.push(host.output(id))
    for (const { stdout } of await Promise.all(readers)) expect(stdout).toBe('1\n2\n3\n4\n5\n')
  })

  it('refuses a position that is beyond the log or within a frame', async () => {
    const id = await host.start(sh('echo hello'))
    await until(async () => (await status(id)).state === 'ended')
    expect((await host.ask('GET', `/jobs/${id}/output?after=1000000`)).status).toBe(400)
    expect((await host.ask('GET', `/jobs/${id}/output?after=2`)).status).toBe(400)
    expect((await host.ask('GET', `/jobs/${id}/output?after=-1`)).status).toBe(400)
    const { position } = await status(id)
    expect((await host.ask('GET', `/jobs/${id}/output?after=${position}`)).body).toHaveLength(0)
  })
})

describe('tar', () => {
  it('packs a folder through a window and unpacks it elsewhere without a loss', async () => {
    for (const [index, bytes] of [0, 10, 70_000, 9_000_000].entries()) {
      writeFileSync(join(host.workspace, `file-${index}`), Buffer.alloc(bytes, index))
    }
    const packing = await host.start({ kind: 'tar-out', path: '.' })
    const archive: Buffer[] = []
    let position = 0
    let ended = false
    while (!ended) {
      // The connection is cut again and again. Output that was not acknowledged is still there.
      const frames = await readSome(packing, position, 3_000_000)
      position += lengthInLog(frames)
      archive.push(...frames.filter((frame) => frame.type === FRAME.stdout).map((frame) => frame.payload))
      ended = frames.some((frame) => frame.type === FRAME.exit)
      expect((await host.ask('POST', `/jobs/${packing}/ack?position=${position}`)).status).toBe(200)
    }
    const unpacking = await host.start({ kind: 'tar-in', path: '../unpacked/deep' })
    await host.ask('POST', `/jobs/${unpacking}/input?offset=0&end=1`, Buffer.concat(archive))
    expect((await host.output(unpacking)).result).toMatchObject({ outcome: 'exited', exitCode: 0 })
    const { result } = await host.run(sh(`diff -r . ${host.folder}/unpacked/deep/workspace`))
    expect(result.exitCode).toBe(0)
  })

  it('stops packing while no reader acknowledges', async () => {
    closeSync(openSync(join(host.folder, 'large'), 'w'))
    await host.run(sh('head -c 40000000 /dev/zero > ../large'))
    const id = await host.start({ kind: 'tar-out', path: '../large' })
    await until(async () => (await status(id)).position > LIMITS.windowBytes)
    const { state, position } = await status(id)
    expect(state).toBe('running')
    expect(position).toBeLessThan(2 * LIMITS.windowBytes)
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('reports a path that does not exist', async () => {
    const { result, stderr } = await host.run({ kind: 'tar-out', path: 'nothing' })
    expect(result.exitCode).toBe(2)
    expect(stderr).toContain('nothing')
  })
})

function payloadsOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat(frames.map((frame) => frame.payload))
}

/** Reads about this many bytes from a position, and then cuts the connection. Returns only whole frames of the log. */
async function readSome(id: string, after: number, bytes: number): Promise<Frame[]> {
  const stream = host.request('GET', `/jobs/${id}/output?after=${after}`)
  stream.end()
  const frames: Frame[] = []
  const reader = new FrameReader()
  await new Promise<void>((resolve) => {
    let seen = 0
    stream.on('data', (chunk: Buffer) => {
      if (seen >= bytes) return
      const taken = chunk.subarray(0, bytes - seen)
      seen += taken.length
      frames.push(
        ...[...reader.push(taken)].map(({ type, payload }) => ({ type, payload: Buffer.from(payload) })),
      )
      if (seen >= bytes) stream.destroy()
    })
    stream.once('close', resolve)
  })
  return frames.filter((frame) => frame.type < FRAME.gap)
}

async function status(id: string): Promise<{ state: string; first: number; position: number }> {
  return (await host.json('GET', `/jobs/${id}`)).value
}
