import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findRepository } from './repository.ts'

describe('the repository of a demo', () => {
  let folder: string
  const repository = (name: string) => {
    mkdirSync(join(folder, name, '.git'), { recursive: true })
    writeFileSync(join(folder, name, '.git', 'HEAD'), 'ref: refs/heads/main\n')
    return join(folder, name)
  }

  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-repository-')))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  it('is a folder from git init', () => {
    execFileSync('git', ['init', '--quiet', join(folder, 'real')])
    expect(findRepository(join(folder, 'real'))).toMatchObject({ path: join(folder, 'real'), name: 'real' })
  })

  it('can be a worktree, whose .git is a file', () => {
    mkdirSync(join(folder, 'tree'))
    writeFileSync(join(folder, 'tree', '.git'), 'gitdir: ../real/.git/worktrees/tree\n')
    expect(findRepository(join(folder, 'tree')).name).toBe('tree')
  })

  it('has the name of its real folder, in characters that ids allow', () => {
    symlinkSync(repository('.My parser (v2)'), join(folder, 'link'))
    expect(findRepository(join(folder, 'link'))).toEqual({
      given: join(folder, 'link'),
      path: join(folder, '.My parser (v2)'),
      name: 'My-parser-v2',
    })
    expect(findRepository(repository('…')).name).toBe('project')
    expect(findRepository(repository('a'.repeat(200))).name).toHaveLength(40)
  })

  it('uses the given name if it is valid', () => {
    const path = repository('a')
    expect(findRepository(path, 'parser').name).toBe('parser')
    for (const name of ['', 'two words', '../x', 'x'.repeat(41), '-x'])
      expect(() => findRepository(path, name)).toThrow('invalid --project-name')
  })

  it.each([
    ['nothing at all', () => 'missing', 'does not exist'],
    ['a file', () => write('file'), 'is not a folder'],
    ['an empty folder', () => mkdir('empty'), 'is not a git repository: it has no .git'],
    ['a folder with an empty .git', () => mkdir('x/.git').slice(0, -5), 'is not a git repository'],
    ['a folder whose .git is any file', () => write('y/.git').slice(0, -5), 'is not a git repository'],
  ])('is not %s', (_, make, message) => {
    expect(() => findRepository(join(folder, make()))).toThrow(message)
  })

  it('is named in the hint when it contains the folder', () => {
    repository('outer')
    const path = join(folder, mkdir('outer/src/deep'))
    expect(() => findRepository(path)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining(`--repo-path ${join(folder, 'outer')}`) }),
    )
  })

  function mkdir(name: string): string {
    mkdirSync(join(folder, name), { recursive: true })
    return name
  }
  function write(name: string): string {
    if (name.includes('/')) mkdir(name.slice(0, name.lastIndexOf('/')))
    writeFileSync(join(folder, name), 'words\n')
    return name
  }
})
