import { normalize } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_VOLUMES, volumes } from './volume.ts'

const accepts = (...all: readonly { name: string; at: string }[]) => volumes.safeParse(all).success
const at = (path: string) => accepts({ name: 'one', at: path })

describe('the volumes of a sandbox', () => {
  it.each(['.local', '.config/gh', 'a/b/c/d', 'projects', '.config/llm-state', 'a.b_c-d', '..x'])(
    'can be mounted at %s in its home',
    (path) => expect(at(path)).toBe(true),
  )

  it.each([
    '',
    '.',
    '..',
    '/',
    '/etc',
    'a//b',
    'a/',
    './a',
    'a/..',
    'a/../../b',
    '~/.local',
    'a/b/c/d/e',
    'project',
    'project/x',
    'project/.git',
    '-x',
    'a b',
    'a\0b',
    'a\nb',
    'ä',
    'a'.repeat(65),
    'a:b',
  ])('are never mounted at %j', (path) => expect(at(path)).toBe(false))

  it('stay in the home and out of the workspace, whatever the request', () => {
    const name = fc.oneof(
      fc.constantFrom('.', '..', '', 'project', '.local', 'a', '~'),
      fc.string({ maxLength: 8 }),
    )
    fc.assert(
      fc.property(fc.array(name, { maxLength: 6 }), (names) => {
        const path = names.join('/')
        if (!at(path)) return
        expect(normalize(path)).toBe(path)
        expect(path).not.toMatch(/^\/|^\.\.(\/|$)|^project(\/|$)|\0/)
      }),
    )
  })

  it.each(['', 'A', '-a', 'a.b', 'a/b', '..', '.gone-x', 'a_b', 'x'.repeat(64)])(
    'are never named %j',
    (name) => expect(accepts({ name, at: '.local' })).toBe(false),
  )

  it('are mounted once each, not one inside another, and in a limited number', () => {
    expect(accepts({ name: 'a', at: '.local' }, { name: 'b', at: '.localx' })).toBe(true)
    expect(accepts({ name: 'a', at: '.local' }, { name: 'b', at: '.local' })).toBe(false)
    expect(accepts({ name: 'a', at: '.config' }, { name: 'b', at: '.config/gh' })).toBe(false)
    expect(accepts({ name: 'a', at: '.config/gh' }, { name: 'b', at: '.config' })).toBe(false)
    expect(accepts({ name: 'a', at: 'x' }, { name: 'a', at: 'y' })).toBe(false)
    const many = Array.from({ length: MAX_VOLUMES + 1 }, (_, i) => ({ name: `v${i}`, at: `v${i}` }))
    expect([accepts(...many), accepts(...many.slice(1))]).toEqual([false, true])
  })
})
