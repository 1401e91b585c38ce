import fc from 'fast-check'
import { expect, test } from 'vitest'
import { matchesPattern, normalisePath, normalisePattern } from './path-patterns.ts'

test.each([
  ['docs/a.md', 'docs/a.md'],
  ['./docs//a.md/', 'docs/a.md'],
  ['docs/./a.md', 'docs/a.md'],
  ['.', '.'],
  ['./', '.'],
  ['/srv//x/', '/srv/x'],
  ['/', '/'],
  ['a..b', 'a..b'],
  ['..', undefined],
  ['docs/../../etc', undefined],
  ['docs/..', undefined],
  ['', undefined],
  ['a\\..\\b', undefined],
  ['a\0b', undefined],
  ['a\nb', undefined],
  ['\ud800', undefined],
  ['a'.repeat(1001), undefined],
])('normalizes %j to %j', (path, normalised) => {
  expect(normalisePath(path)).toBe(normalised)
})

test.each(['*.md', 'docs/*.md', 'a**', 'a/***/b', '../**'])('refuses the pattern %s', (pattern) => {
  expect(normalisePattern(pattern)).toBeUndefined()
})

test.each([
  ['docs/**', 'docs/a/b.md', true],
  ['docs/**', 'docs', true],
  ['docs/**', 'docsx/a', false],
  ['docs/*', 'docs/a', true],
  ['docs/*', 'docs/a/b', false],
  ['docs/*', 'docs', false],
  ['**', 'anything/at/all', true],
  ['**', '.', true],
  ['**', '/etc/passwd', false],
  ['/**', '/etc/passwd', true],
  ['/**', 'etc/passwd', false],
  ['**/test/**', 'a/test/b', true],
  ['**/test/**', 'a/b', false],
  ['a/**/b/**/c', 'a/x/b/y/b/c', true],
  ['a/**/b', 'a/b/c', false],
  ['docs', 'DOCS', false],
])('%s against %s: %s', (pattern, path, matches) => {
  expect(matchesPattern(pattern, path)).toBe(matches)
})

test('agrees with a regular expression on every pattern and path', () => {
  const segment = fc.constantFrom('a', 'b', 'c')
  const pattern = fc.array(fc.oneof(segment, fc.constantFrom('*', '**')), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(pattern, fc.array(segment, { minLength: 1, maxLength: 8 }), (parts, segments) => {
      const expression = parts.map((part) =>
        part === '**' ? '(?:[^/]+/)*' : part === '*' ? '[^/]+/' : `${part}/`,
      )
      const matches = new RegExp(`^${expression.join('')}$`).test(`${segments.join('/')}/`)
      expect(matchesPattern(parts.join('/'), segments.join('/'))).toBe(matches)
    }),
  )
})

test('matches a hostile pattern within the product of the segment counts', () => {
  const pattern = Array.from({ length: 100 }, () => '**/a').join('/')
  const started = performance.now()
  expect(matchesPattern(`${pattern}/b`, 'a/'.repeat(450).slice(0, -1))).toBe(false)
  expect(performance.now() - started).toBeLessThan(500)
})
