import fc from 'fast-check'
import { expect, it } from 'vitest'
import { dataOf, EventBlocks, isEventStream } from './event-blocks.ts'

const line = fc.constantFrom('data: {"a":1}', 'data:x', 'event: ping', ': a comment', 'data: é', 'id: 7')
const ending = fc.constantFrom('\n', '\r\n')
const event = fc
  .tuple(fc.array(line, { minLength: 1, maxLength: 3 }), ending)
  .map(([lines, end]) => [...lines, '', ''].join(end))
const stream = fc.array(event, { minLength: 1, maxLength: 6 })
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 })

function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; at += lengths[i % lengths.length]!, i++)
    pieces.push(bytes.subarray(at, at + lengths[i % lengths.length]!))
  return pieces
}

it('returns complete events and every byte of them, at any split', () => {
  fc.assert(
    fc.property(stream, sizes, (events, lengths) => {
      const blocks = new EventBlocks(1000)
      const out = cut(Buffer.from(events.join('')), lengths).flatMap((piece) => blocks.feed(piece))
      expect(out.map(String)).toEqual(events)
      expect(blocks.openBytes).toBe(0)
    }),
  )
})

it('joins an event that arrives byte by byte', () => {
  const text = `data: ${'0123456789'.repeat(500)}\n\n`
  const blocks = new EventBlocks(10_000)
  const out = [...Buffer.from(text)].flatMap((byte) => blocks.feed(Buffer.from([byte])))
  expect(out.map(String)).toEqual([text])
})

it('holds an event until it is complete', () => {
  const blocks = new EventBlocks(1000)
  expect(blocks.feed(Buffer.from('data: 1\n\ndata: {"half'))).toHaveLength(1)
  expect(blocks.openBytes).toBe('data: {"half'.length)
  expect(blocks.feed(Buffer.from('"}\n')).map(String)).toEqual([])
  expect(blocks.feed(Buffer.from('\n')).map(String)).toEqual(['data: {"half"}\n\n'])
})

it('holds at most the size limit of an event', () => {
  const blocks = new EventBlocks(10)
  expect(() => blocks.feed(Buffer.from('data: 0123456789'))).toThrow(RangeError)
})

it('reads data over several lines, and nothing without data lines', () => {
  expect(dataOf(Buffer.from('event: x\ndata: a\r\ndata:b\n\n'))).toBe('a\nb')
  expect(dataOf(Buffer.from(': hello\n\n'))).toBeUndefined()
})

it('recognises lines that are not part of an event stream', () => {
  expect(isEventStream(Buffer.from('event: x\r\ndata: 1\r\n\r\n'))).toBe(true)
  expect(isEventStream(Buffer.from('<html>\n\n'))).toBe(false)
})
