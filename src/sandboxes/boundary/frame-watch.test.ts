import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeFrame, encodeJsonFrame, FRAME, type FrameType, isInLog } from '../../lib/frames.ts'
import { FrameWatch } from './frame-watch.ts'
import { RESULT } from './hostile-sidecar.fixture.ts'

const exit = encodeJsonFrame(FRAME.exit, RESULT)
const fresh = () => new FrameWatch(0, 'read the output of a job')

const piece = fc.oneof(
  fc.tuple(fc.constantFrom(FRAME.stdout, FRAME.stderr), fc.uint8Array({ maxLength: 300 })),
  fc.tuple(fc.constant(FRAME.alive), fc.constant(new Uint8Array())),
  fc.tuple(
    fc.constant(FRAME.ack),
    fc.maxSafeNat().map((offset) => Buffer.from(JSON.stringify({ offset }))),
  ),
)

describe('FrameWatch', () => {
  it('reports the position and the result, wherever the stream is cut into chunks', () => {
    fc.assert(
      fc.property(fc.array(piece), fc.array(fc.nat(2000)), (pieces, cuts) => {
        const frames = pieces.map(([type, payload]) => encodeFrame(type as FrameType, payload))
        const stream = Buffer.concat([...frames, exit])
        const inLog = frames
          .filter((frame) => isInLog(frame[0]!))
          .reduce((sum, frame) => sum + frame.length, 0)
        const watch = fresh()
        const at = [0, ...cuts.map((cut) => cut % stream.length), stream.length].sort((a, b) => a - b)
        for (let i = 1; i < at.length; i++) watch.chunk(stream.subarray(at[i - 1], at[i]))
        watch.end()
        expect(watch.result).toEqual(RESULT)
        expect(watch.position).toBe(inLog + exit.length)
      }),
    )
  })

  it('fails on any other bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 64 }), (bytes) => {
        const watch = fresh()
        try {
          watch.chunk(Buffer.from(bytes))
        } catch (error) {
          expect(error).toMatchObject({ code: 'boundary_failed' })
          return
        }
        expect(() => watch.end()).toThrow(/before it reported the result/)
      }),
    )
  })

  it.each([
    ['a length of 4 GiB', Buffer.from([1, 255, 255, 255, 255])],
    ['an unknown type', Buffer.from([9, 0, 0, 0, 0])],
    ['a line that is alive and says something', Buffer.from([18, 0, 0, 0, 1, 0])],
    ['an exit frame of 5 KB', Buffer.from([3, 0, 0, 20, 0])],
    ['something after the exit frame', Buffer.concat([exit, Buffer.from([1])])],
    ['a gap that begins elsewhere', encodeJsonFrame(FRAME.gap, { from: 5, to: 9 })],
    ['a gap that leads back', encodeJsonFrame(FRAME.gap, { from: 0, to: 0 })],
    ['an acknowledgement below zero', encodeJsonFrame(FRAME.ack, { offset: -1 })],
    ['an exit frame that is not JSON', encodeFrame(FRAME.exit, Buffer.from('NaN,'))],
  ])('refuses %s', (_, bytes) => {
    expect(() => fresh().chunk(bytes)).toThrow(expect.objectContaining({ code: 'boundary_failed' }))
  })

  it.each([
    ['exitCode', 256],
    ['exitCode', -1],
    ['exitCode', 0.5],
    ['stdoutBytes', -1],
    ['stdoutBytes', 1e300],
    ['durationMs', 2 ** 53],
    ['durationMs', '7'],
    ['durationMs', null],
    ['signal', 'SIGKILL; rm -rf /'],
    ['outcome', 'won'],
    ['error', 'x'.repeat(301)],
  ])('refuses an exit frame whose %s is %j', (field, value) => {
    const frame = encodeJsonFrame(FRAME.exit, { ...RESULT, [field]: value })
    expect(() => fresh().chunk(frame)).toThrow(new RegExp(`in which ${field} is invalid`))
  })

  it('moves to the position that a gap leads to', () => {
    const watch = new FrameWatch(10, 'x')
    watch.chunk(encodeJsonFrame(FRAME.gap, { from: 10, to: 5000 }))
    expect(watch.position).toBe(5000)
  })
})
