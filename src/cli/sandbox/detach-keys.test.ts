import fc from 'fast-check'
import { expect, it } from 'vitest'
import { DetachKeys } from './detach-keys.ts'

function typeKeys(...chunks: readonly string[]): { data: string; detached: boolean } {
  const keys = new DetachKeys()
  let data = ''
  for (const chunk of chunks) {
    const pushed = keys.push(Buffer.from(chunk, 'latin1'))
    data += pushed.data.toString('latin1')
    if (pushed.detached) return { data, detached: true }
  }
  return { data, detached: false }
}

it('detaches at Ctrl-] d, wherever the chunks are split', () => {
  expect(typeKeys('ls\r\x1dd')).toEqual({ data: 'ls\r', detached: true })
  expect(typeKeys('ls\r\x1d', 'd', 'more')).toEqual({ data: 'ls\r', detached: true })
})

it('sends Ctrl-] if it is typed twice, or if another key follows it', () => {
  expect(typeKeys('\x1d\x1d')).toEqual({ data: '\x1d', detached: false })
  expect(typeKeys('\x1dx')).toEqual({ data: '\x1dx', detached: false })
  expect(typeKeys('\x1d', '\x1d', 'd')).toEqual({ data: '\x1dd', detached: false })
})

it('forwards everything else unchanged', () => {
  const chunk = fc
    .uint8Array({ maxLength: 20 })
    .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 0x1d)).toString('latin1'))
  fc.assert(
    fc.property(fc.array(chunk), (chunks) => {
      expect(typeKeys(...chunks)).toEqual({ data: chunks.join(''), detached: false })
    }),
  )
})
