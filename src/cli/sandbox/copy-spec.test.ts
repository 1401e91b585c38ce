import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseCopy } from './copy-spec.ts'

describe('the two sides of a copy', () => {
  it.each([
    [
      'notes.txt',
      'parser:notes.txt',
      { direction: 'in', sandbox: 'parser', inside: 'notes.txt', local: 'notes.txt' },
    ],
    ['parser:/tmp/a', '.', { direction: 'out', sandbox: 'parser', inside: '/tmp/a', local: '.' }],
    ['src', 'parser:', { direction: 'in', sandbox: 'parser', inside: '.', local: 'src' }],
    ['./a:b', 'parser:x', { direction: 'in', sandbox: 'parser', inside: 'x', local: './a:b' }],
    ['/a:b', 'parser:x:y', { direction: 'in', sandbox: 'parser', inside: 'x:y', local: '/a:b' }],
    ['parser:a b', 'x/y:z', { direction: 'out', sandbox: 'parser', inside: 'a b', local: 'x/y:z' }],
    ['C:\\notes', 'parser:x', { direction: 'in', sandbox: 'parser', inside: 'x', local: 'C:\\notes' }],
    ['c:notes', 'x', { direction: 'out', sandbox: 'c', inside: 'notes', local: 'x' }],
    [
      '../up',
      'sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD:up',
      { direction: 'in', sandbox: 'sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD' },
    ],
  ])('are accepted: %j to %j', (source, destination, expected) => {
    expect(parseCopy(source, destination)).toMatchObject(expected)
  })

  it.each([
    ['a', 'b', 'usage'],
    ['a:x', 'b:y', 'usage'],
    ['', 'b:y', 'usage'],
    ['-', 'b:y', 'usage'],
    ['a\0', 'b:y', 'usage'],
    ['x', `${'b'.repeat(300)}:y`, 'usage'],
    ['x', `b:${'y'.repeat(5000)}`, 'too_large'],
    ['C:\\a', 'C:\\b', 'usage'],
  ])('are refused: %j to %j', (source, destination, code) => {
    expect(() => parseCopy(source, destination)).toThrow(expect.objectContaining({ code }))
  })

  it('do not take an absolute path, or one that begins with a dot, for a sandbox', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('/', './', '../'),
        fc.string({ unit: 'grapheme', maxLength: 30 }),
        (start, rest) => {
          const local = `${start}${rest.replaceAll('\0', '')}`
          expect(parseCopy(local, 'parser:x')).toMatchObject({ direction: 'in', local })
        },
      ),
    )
  })
})
