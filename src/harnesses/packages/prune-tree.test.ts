import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { matcherOf, pruneTree } from './prune-tree.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-prune-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const signal = new AbortController().signal

function files(...paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), '12345')
  }
}
const listLeft = (...paths: readonly string[]) => paths.filter((path) => existsSync(join(folder, path)))

describe('pruning', () => {
  it("removes types, source maps, npm's links and the recipe's patterns, and counts the remaining files", async () => {
    const stays = [
      'package.json',
      'node_modules/a/index.js',
      'node_modules/a/LICENSE',
      'node_modules/a/d.ts.js',
    ]
    const goes = [
      'node_modules/.package-lock.json',
      'node_modules/a/index.d.ts',
      'node_modules/a/deep/er/index.d.mts',
      'node_modules/a/index.js.map',
      'node_modules/a/vendor/x64/voice/lib/one.so',
      'node_modules/a/node_modules/.bin/c',
    ]
    files(...stays, ...goes)
    mkdirSync(join(folder, 'node_modules/.bin'))
    symlinkSync('../a/index.js', join(folder, 'node_modules/.bin/a'))
    const size = await pruneTree(folder, ['node_modules/a/vendor/*/voice'], signal)
    expect(size).toEqual({ files: 4, bytes: 20 })
    expect(listLeft(...stays)).toEqual(stays)
    expect(listLeft(...goes, 'node_modules/.bin', 'node_modules/a/vendor/x64/voice')).toEqual([])
    expect(listLeft('node_modules/a/vendor/x64')).toHaveLength(1)
  })

  it('refuses a tree with a link, because it could lead to a path outside the mount', async () => {
    files('node_modules/a/index.js')
    symlinkSync('/etc/passwd', join(folder, 'node_modules/a/x'))
    await expect(pruneTree(folder, [], signal)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('node_modules/a/x'),
    })
  })

  it('stops when its signal aborts', async () => {
    files('node_modules/a/index.js')
    await expect(pruneTree(folder, [], AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop')
  })
})

describe('a pattern', () => {
  it.each([
    ['a/*/c', 'a/b/c', true],
    ['a/*/c', 'a/b/b/c', false],
    ['a/**/c', 'a/c', true],
    ['a/**/c', 'a/b/b/c', true],
    ['a/**/*.d.ts', 'a/x.d.ts', true],
    ['a/**/*.d.ts', 'a/xd.ts', false],
    ['@x/y-*', '@x/y-linux-x64', true],
    ['@x/y-*', '@x/y', false],
    ['a', 'ab', false],
    ['a+b.(c)', 'a+b.(c)', true],
  ])('%s matches %s: %s', (pattern, path, matches) => {
    expect(matcherOf(pattern).test(path)).toBe(matches)
  })

  it('without a star matches only itself', () => {
    const name = fc.stringMatching(/^[a-z.+$(]{1,5}(?:\/[a-z.+$(]{1,5}){0,3}$/)
    fc.assert(fc.property(name, name, (a, b) => matcherOf(a).test(b) === (a === b)))
  })
})
