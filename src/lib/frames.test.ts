import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  encodeFrame,
  FRAME,
  FRAME_HEADER_BYTES,
  FrameReader,
  type FrameType,
  isInLog,
  MAX_FRAME_BYTES,
} from './frames.ts'

const type = fc.constantFrom(...(Object.values(FRAME) as FrameType[]))
const frame = fc.record({
  type,
  payload: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
})

describe('frames', () => {
  it('are decoded unchanged, however the stream is split', () => {
    fc.assert(
      fc.property(fc.array(frame), fc.array(fc.integer({ min: 1, max: 50 })), (frames, cuts) => {
        const whole = Buffer.concat(frames.map((one) => encodeFrame(one.type, one.payload)))
        const reader = new FrameReader()
        const found = []
        let at = 0
        for (const bytes of [...cuts, whole.length]) {
          found.push(...reader.push(whole.subarray(at, at + bytes)))
          at += bytes
        }
        expect(found).toEqual(frames)
        expect(reader.pendingBytes).toBe(0)
      }),
    )
  })

  it('wait for the rest of an incomplete one', () => {
    const bytes = encodeFrame(FRAME.stdout, Buffer.from('hello'))
    const reader = new FrameReader()
    expect([...reader.push(bytes.subarray(0, 7))]).toEqual([])
    expect(reader.pendingBytes).toBe(7)
    expect([...reader.push(bytes.subarray(7))]).toHaveLength(1)
  })

  it('are refused when their type is unknown or their length exceeds the limit', () => {
    expect(() => [...new FrameReader().push(Buffer.from([9, 0, 0, 0, 0]))]).toThrow('malformed frame')
    const long = Buffer.alloc(FRAME_HEADER_BYTES)
    long.writeUInt8(FRAME.stdout, 0)
    long.writeUInt32BE(MAX_FRAME_BYTES + 1, 1)
    expect(() => [...new FrameReader().push(long)]).toThrow('malformed frame')
  })

  it('move the position of a reader only when they are part of the log', () => {
    expect(Object.values(FRAME).filter(isInLog)).toEqual([FRAME.stdout, FRAME.stderr, FRAME.exit])
  })
})
