import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findHeldBack, isGitName, linkProblem, pathProblem } from './unsafe-paths.ts'

describe('names of git’s own folder', () => {
  it.each([
    '.git',
    '.GIT',
    '.Git',
    '.git.',
    '.git ',
    '.git. .',
    'git~1',
    'GIT~1',
    'git~2',
    '.git::$INDEX_ALLOCATION',
  ])('%j is one', (name) => expect(isGitName(name)).toBe(true))

  it.each(['.g\u200cit', '\ufeff.git', '.\uff47\uff49\uff54', 'x\\.git', '.git\\hooks'])(
    '%j is one on other file systems',
    (name) => expect(isGitName(name)).toBe(true),
  )

  it.each(['.github', '.gitignore', '.gitattributes', 'git', 'git~', '.git-x', 'x.git', '.gitmodules'])(
    '%j is not one',
    (name) => expect(isGitName(name)).toBe(false),
  )

  it('are found at any depth', () => {
    const name = fc.stringMatching(/^[a-z]{1,5}$/)
    fc.assert(
      fc.property(
        fc.array(name),
        fc.array(name),
        fc.constantFrom('.git', '.GIT', 'git~1'),
        (above, below, git) => {
          expect(pathProblem([...above, git, ...below].join('/'))).toBe('it belongs to git')
        },
      ),
    )
  })
})

describe('links', () => {
  it.each([
    ['a/link', '../b'],
    ['link', 'b/c'],
    ['a/b/link', '../../c'],
  ])('%s to %s stays in the folder', (path, target) => expect(linkProblem(path, target)).toBeUndefined())

  it.each([
    ['link', '/etc/passwd'],
    ['link', '..'],
    ['a/link', '../../b'],
    ['a/link', 'b/../../../c'],
    ['link', '.git/hooks'],
    ['a/link', '../.GIT/config'],
    ['link', 'x\u001b[2J'],
  ])('%s to %j is refused', (path, target) => expect(linkProblem(path, target)).toBeDefined())
})

describe('folders whose programs come first on PATH', () => {
  it.each([
    'node_modules/.bin/git',
    'web/node_modules/.bin/git',
    '.venv/bin/git',
    'venv/bin/git',
    '.direnv/bin/git',
    'env/pyvenv.cfg',
  ])('%s is held back', (path) => expect(findHeldBack(path)).toMatchObject({ kind: 'settings' }))

  it.each(['node_modules/left-pad/index.js', 'bin/tool', 'src/venv.ts'])('%s is not held back', (path) =>
    expect(findHeldBack(path)).toBeUndefined(),
  )
})
