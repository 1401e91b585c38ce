import fc from 'fast-check'
import { expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { sandboxPath } from './api-paths.ts'

it('builds the path of a sandbox from its id or its name', () => {
  expect(sandboxPath('parser.2_a-b', '/stats')).toBe('/api/sandboxes/parser.2_a-b/stats')
})

it.each(['', '-1', '..', '../x', 'a/b', 'a b', 'a\0b', 'x'.repeat(65), 'x'.repeat(1_000_000)])(
  'refuses what names no sandbox, and shortens it in the message',
  (name) => {
    expect(() => sandboxPath(name)).toThrow(
      expect.objectContaining({
        code: 'usage',
        message: expect.stringMatching(/^.{2,90} is not a sandbox id or name$/),
        hint: expect.stringContaining('craik sandbox list'),
      }),
    )
  },
)

it('never builds a path to anything else', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary-ascii', maxLength: 70 }), (name) => {
      try {
        return sandboxPath(name) === `/api/sandboxes/${name}`
      } catch (error) {
        return error instanceof CraikError && error.code === 'usage'
      }
    }),
  )
})
