import { readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { FRAME, FRAME_HEADER_BYTES, type Frame } from '../../lib/frames.ts'
import { framesOf, until } from '../sidecar.fixture.ts'
import { JobLog, type LogMode, type LogOptions, type LogReader } from './job-log.ts'

const MEMORY_BYTES = 4096

let folder: string
beforeEach(() => {
  folder = tempFolder('craik-log-')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function newLog(mode: LogMode, options: Partial<LogOptions> = {}): JobLog {
  return new JobLog({ mode, memoryBytes: MEMORY_BYTES, spillFolder: folder, onDrain: () => {}, ...options })
}

/** Returns a folder that cannot exist, because its parent is a file. */
function noFolder(): string {
  writeFileSync(join(folder, 'file'), '')
  return join(folder, 'file', 'spill')
}

type Piece = Buffer | { readonly from: number; readonly to: number }

async function readFrom(log: JobLog, position: number): Promise<Piece[]> {
  const pieces: Piece[] = []
  for (let at = position; ; ) {
    const piece = await log.read(at)
    if (piece === undefined) return pieces
    pieces.push(piece)
    at = Buffer.isBuffer(piece) ? at + piece.length : piece.to
  }
}

async function framesFrom(log: JobLog, position: number): Promise<Frame[]> {
  const pieces = await readFrom(log, position)
  return framesOf(Buffer.concat(pieces.filter((piece) => Buffer.isBuffer(piece))))
}

function reader(position: number, sinceMs = Number.NEGATIVE_INFINITY): LogReader & { position: number } {
  return { position, sinceMs, wake() {} }
}

describe('a log that spills to disk', () => {
  it('returns every frame from every position, in order, from memory and from disk', async () => {
    const frame = fc.tuple(fc.constantFrom(FRAME.stdout, FRAME.stderr), fc.integer({ min: 1, max: 3000 }))
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { minLength: 1, maxLength: 40 }), async (provided) => {
        const log = newLog('spill')
        const wanted = provided.map(([type, bytes], index) => ({ type, payload: Buffer.alloc(bytes, index) }))
        for (const { type, payload } of wanted) {
          log.append(type, payload)
          await until(() => log.hasCapacity)
        }
        log.end()
        let position = 0
        for (const [index, { payload }] of wanted.entries()) {
          expect(await framesFrom(log, position)).toEqual(wanted.slice(index))
          position += FRAME_HEADER_BYTES + payload.length
        }
        expect(log.position).toBe(position)
        expect(log.memoryBytes).toBeLessThan(2 * MEMORY_BYTES + 3005)
        log.close()
      }),
      { numRuns: 30 },
    )
  })

  it('splits a payload that is larger than a frame', async () => {
    const log = newLog('spill')
    log.append(FRAME.stdout, Buffer.alloc(300_000, 7))
    const frames = await framesFrom(log, 0)
    expect(Buffer.concat(frames.map((frame) => frame.payload))).toEqual(Buffer.alloc(300_000, 7))
    log.close()
  })

  it('throws when no frame begins at a position', async () => {
    const log = newLog('spill')
    log.append(FRAME.stdout, Buffer.alloc(100, 0xff))
    expect(() => log.read(3)).toThrow(RangeError)
    log.close()
  })

  it('pauses the program when the disk takes nothing and there is no reader', () => {
    const log = newLog('spill', { spillFolder: noFolder() })
    let appended = 0
    const fill = async () => {
      while (log.hasCapacity && appended < 1000) {
        log.append(FRAME.stdout, Buffer.alloc(512, appended++))
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    return fill().then(async () => {
      expect(log.memoryBytes).toBeLessThan(3 * MEMORY_BYTES)
      expect(log.first).toBe(0)
      // A reader that comes now gets all of it.
      const following = reader(0)
      log.addReader(following)
      const frames = await framesFrom(log, 0)
      expect(frames).toHaveLength(appended)
      // It thereby frees memory.
      following.position = log.position
      log.readerMoved()
      // A write to the disk may be in progress. Memory is freed when that write has failed.
      await until(() => log.hasCapacity)
      await fill()
      // A reader that returns for dropped frames gets a gap.
      const [gap] = await readFrom(log, 0)
      expect(gap).toEqual({ from: 0, to: log.first })
      expect(log.first).toBeGreaterThan(0)
      log.removeReader(following)
      log.close()
    })
  })

  it('can be moved to disk after its job has ended, and remains readable', async () => {
    for (const mode of ['spill', 'ring', 'window'] as const) {
      const log = newLog(mode)
      for (let index = 0; index < 5; index++) log.append(FRAME.stdout, Buffer.alloc(500, index))
      log.end()
      const before = await framesFrom(log, 0)
      await log.park()
      expect(log.memoryBytes).toBe(0)
      expect(await framesFrom(log, 0)).toEqual(before)
      log.close()
    }
  })
})

describe('a log that spills to disk and is acknowledged', () => {
  const SMALL = { spillFileBytes: 2 * MEMORY_BYTES }

  /** Writes numbered frames, so that the test detects a doubled or lost frame. */
  async function write(log: JobLog, from: number, count: number): Promise<void> {
    for (let index = from; index < from + count; index++) {
      const payload = Buffer.alloc(4 + ((index * 37) % 1500), index)
      payload.writeUInt32BE(index)
      log.append(FRAME.stdout, payload)
      await until(() => log.hasCapacity)
    }
  }
  const numberOf = ({ payload }: Frame) => payload.readUInt32BE()
  const countFrom = (first: number, end: number) =>
    Array.from({ length: end - first }, (_, index) => first + index)

  it('loses and doubles nothing for a reader that disconnects, returns, and acknowledges what it has', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('write' as const), count: fc.integer({ min: 1, max: 30 }) }),
      fc.record({ do: fc.constant('read' as const), count: fc.integer({ min: 1, max: 12 }) }),
      // A cut loses pieces that were on their way: the reader is back at its position some pieces before.
      fc.record({ do: fc.constant('cut' as const), count: fc.integer({ min: 1, max: 4 }) }),
      fc.record({ do: fc.constant('acknowledge' as const), count: fc.constant(0) }),
      fc.record({ do: fc.constant('park' as const), count: fc.constant(0) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
        const log = newLog('spill', SMALL)
        let written = 0
        let acknowledged = 0
        // The reader's position before each piece that it has not acknowledged.
        const taken: { at: number; frames: Frame[] }[] = []
        const stored: Frame[] = []
        let at = 0
        const take = async () => {
          const piece = await log.read(at)
          if (piece === undefined) return false
          expect(Buffer.isBuffer(piece)).toBe(true)
          taken.push({ at, frames: framesOf(Buffer.from(piece as Buffer)) })
          at += (piece as Buffer).length
          return true
        }
        const acknowledge = () => {
          stored.push(...taken.splice(0).flatMap(({ frames }) => frames))
          acknowledged = at
          log.acknowledge(at)
        }
        for (const { do: what, count } of steps) {
          if (what === 'write') {
            await write(log, written, count)
            written += count
          } else if (what === 'read') for (let n = 0; n < count; n++) await take()
          else if (what === 'cut') at = taken.splice(-count)[0]?.at ?? acknowledged
          else if (what === 'acknowledge') acknowledge()
        }
        log.append(FRAME.exit, Buffer.from('{}'))
        log.end()
        if (steps.some((one) => one.do === 'park')) await log.park()
        while (await take());
        acknowledge()
        expect(stored.at(-1)?.type).toBe(FRAME.exit)
        expect(stored.slice(0, -1).map(numberOf)).toEqual(countFrom(0, written))
        // Only the end of the log is left. A late reader gets it after a gap.
        expect(log.spillBytes).toBe(0)
        const later = await readFrom(log, 0)
        if (log.first > 0) expect(later[0]).toEqual({ from: 0, to: log.first })
        const tail = framesOf(Buffer.concat(later.filter((piece) => Buffer.isBuffer(piece))))
        expect(tail.at(-1)?.type).toBe(FRAME.exit)
        expect(tail.slice(0, -1).map(numberOf)).toEqual(countFrom(written - tail.length + 1, written))
        log.close()
      }),
      { numRuns: 60 },
    )
  })

  it('gives everything to a reader that never acknowledges', async () => {
    const log = newLog('spill', SMALL)
    await write(log, 0, 300)
    expect((await framesFrom(log, 0)).map(numberOf)).toEqual(countFrom(0, 300))
    log.close()
  })

  it('returns a gap to a reader that is behind what another one has acknowledged', async () => {
    const log = newLog('spill', SMALL)
    await write(log, 0, 300)
    const before = log.spillBytes
    log.acknowledge(log.position)
    expect(log.spillBytes).toBeLessThan(before / 5)
    await write(log, 300, 1)
    const [gap, ...rest] = await readFrom(log, 0)
    expect(gap).toEqual({ from: 0, to: log.first })
    expect(log.first).toBeGreaterThan(0)
    const numbers = framesOf(Buffer.concat(rest as Buffer[])).map(numberOf)
    expect(numbers).toEqual(countFrom(numbers[0]!, 301))
    expect(log.position - log.first).toBeGreaterThanOrEqual(MEMORY_BYTES / 2)
    log.close()
  })

  it('closes the files of acknowledged output, however much passes through them', async () => {
    const log = newLog('spill', SMALL)
    const files = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder)
        } catch {
          return false
        }
      }).length
    for (let index = 0; index < 20; index++) {
      await write(log, index * 50, 50)
      log.acknowledge(log.position)
      expect(log.spillBytes).toBeLessThan(8 * MEMORY_BYTES)
    }
    await until(() => files() <= 2)
    log.end()
    log.acknowledge(log.position)
    log.close()
    await until(() => files() === 0)
  })

  it('uses few files for much output that no reader acknowledged', async () => {
    const log = newLog('spill', { spillFileBytes: 1024 })
    for (let index = 0; index < 2000; index++) {
      log.append(FRAME.stdout, Buffer.alloc(1500))
      await until(() => log.hasCapacity)
    }
    const files = readdirSync('/proc/self/fd').length
    expect(log.spillBytes).toBeGreaterThan(2_000_000)
    expect(files).toBeLessThan(200)
    log.close()
  })

  it('pauses a program that is far ahead of an acknowledging reader, until the reader catches up or disconnects', async () => {
    let capacities = 0
    const log = newLog('spill', { ...SMALL, aheadBytes: 20_000, onDrain: () => capacities++ })
    const following = reader(0)
    log.addReader(following)
    const append = async () => {
      for (let index = 0; index < 30 && log.hasCapacity; index++) {
        log.append(FRAME.stdout, Buffer.alloc(1000))
        await until(
          () => log.hasCapacity || (log.acknowledged > 0 && log.position - following.position > 20_000),
        )
      }
    }
    await append()
    // No reader has acknowledged anything, so the log keeps everything for later readers.
    expect(log.position).toBe(30 * 1005)
    following.position = 1005
    log.acknowledge(1005)
    expect(log.hasCapacity).toBe(false)
    following.position = log.position
    capacities = 0
    log.readerMoved()
    expect(log.hasCapacity).toBe(true)
    expect(capacities).toBe(1)
    await append()
    expect(log.hasCapacity).toBe(false)
    log.removeReader(following)
    expect(log.hasCapacity).toBe(true)
    log.close()
  })

  it('uses the disk again when it has free space', async () => {
    const log = newLog('spill', { ...SMALL, spillFolder: noFolder() })
    for (let index = 0; log.hasCapacity; index++) {
      log.append(FRAME.stdout, Buffer.alloc(500, index))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until(() => log.waitsForDisk)
    rmSync(join(folder, 'file'))
    await until(() => log.hasCapacity)
    expect(log.waitsForDisk).toBe(false)
    const before = log.position
    await write(log, 0, 100)
    expect(log.spillBytes).toBeGreaterThan(before)
    const pieces = await readFrom(log, 0)
    expect(pieces.every((piece) => Buffer.isBuffer(piece))).toBe(true)
    log.close()
  })

  it('keeps output, while the disk is full, that only a reader received that disconnected at once', async () => {
    const log = newLog('spill', { ...SMALL, spillFolder: noFolder() })
    const leaving = reader(0, Number.POSITIVE_INFINITY)
    log.addReader(leaving)
    while (log.hasCapacity) {
      log.append(FRAME.stdout, Buffer.alloc(500))
      leaving.position = log.position
      log.readerMoved()
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until(() => log.waitsForDisk)
    log.removeReader(leaving)
    expect(log.first).toBe(0)
    log.close()
  })

  it('keeps output, while the disk is full, that a reader received and did not acknowledge', async () => {
    const log = newLog('spill', { ...SMALL, spillFolder: noFolder() })
    const following = reader(0)
    log.addReader(following)
    log.append(FRAME.stdout, Buffer.alloc(100))
    log.acknowledge(105)
    while (log.hasCapacity) {
      log.append(FRAME.stdout, Buffer.alloc(500))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until(() => log.waitsForDisk)
    following.position = log.position
    log.readerMoved()
    expect(log.hasCapacity).toBe(false)
    expect(Buffer.isBuffer(await log.read(105))).toBe(true)
    log.acknowledge(log.position)
    expect(log.hasCapacity).toBe(true)
    log.close()
  })
})

describe('a ring log', () => {
  it('drops its oldest frames, returns a gap for them, and never pauses the program', async () => {
    const log = newLog('ring')
    for (let index = 0; index < 200; index++) log.append(FRAME.stdout, Buffer.alloc(100, index))
    expect(log.hasCapacity).toBe(true)
    expect(log.memoryBytes).toBeLessThanOrEqual(MEMORY_BYTES)
    const [gap, ...rest] = await readFrom(log, 0)
    expect(gap).toEqual({ from: 0, to: log.first })
    const frames = framesOf(Buffer.concat(rest as Buffer[]))
    expect(frames.at(-1)?.payload).toEqual(Buffer.alloc(100, 199))
    expect(log.first + frames.length * 105).toBe(log.position)
    log.close()
  })
})

describe('a log with a window', () => {
  it('has free capacity when its reader has acknowledged, and not before', async () => {
    const log = newLog('window')
    while (log.hasCapacity) log.append(FRAME.stdout, Buffer.alloc(1000))
    expect(log.position).toBeLessThan(2 * MEMORY_BYTES)
    await readFrom(log, 0)
    expect(log.hasCapacity).toBe(false)
    expect(log.first).toBe(0)
    log.acknowledge(log.position)
    expect(log.hasCapacity).toBe(true)
    expect(log.first).toBe(log.position)
    expect(await readFrom(log, 0)).toEqual([{ from: 0, to: log.position }])
    // The last frame stays, whatever is acknowledged.
    log.append(FRAME.exit, Buffer.from('{}'))
    log.end()
    log.acknowledge(log.position)
    expect((await framesFrom(log, 0)).map(({ type }) => type)).toEqual([FRAME.exit])
    log.close()
  })
})
