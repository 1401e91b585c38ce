/** The hook that checks the authors of pushed commits, with the git of the host. */
import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../temp-folder.ts'

const HOOKS = resolve(import.meta.dirname, '../../image/inside/git-hooks')
const OWN = 'ada@example.com'
const WORK = 'work@corp.example'

let folder: string
let here: string
beforeEach(() => {
  folder = tempFolder('craik-push-')
  here = join(folder, 'here')
  const config = `[core]\nhooksPath = ${HOOKS}\n[user]\nname = Ada\nemail = ${OWN}\n[init]\ndefaultBranch = main\n`
  writeFileSync(join(folder, 'config'), config)
  git(folder, 'init', '-q', '--bare', 'there.git')
  git(folder, 'init', '-q', 'here')
  git(here, 'remote', 'add', 'origin', '../there.git')
  commit('first')
  git(here, 'push', '-q', 'origin', 'main')
})

const environment = () => ({
  PATH: process.env.PATH,
  HOME: folder,
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_CONFIG_GLOBAL: join(folder, 'config'),
})

function git(cwd: string, ...args: string[]): string {
  return execFileSync('git', args, { cwd, env: environment(), encoding: 'utf8' }).trim()
}

function commit(subject: string, email = OWN): string {
  git(here, '-c', `user.email=${email}`, 'commit', '-q', '--allow-empty', '-m', subject)
  return git(here, 'rev-parse', 'HEAD')
}

function push(...args: string[]) {
  return pushWith({}, ...args)
}

function pushWith(env: Record<string, string>, ...args: string[]) {
  const options = { cwd: here, env: { ...environment(), ...env }, encoding: 'utf8' } as const
  const { status, stderr } = spawnSync('git', ['push', '-q', ...args], options)
  return { status, stderr }
}

describe('a push', () => {
  it('of the user’s own commits passes, in any case of the address', () => {
    commit('second', 'ADA@example.com')
    expect(push('origin', 'main')).toEqual({ status: 0, stderr: '' })
  })

  it('of a branch, a tag or a new branch with another author’s commit is refused, and the remote gets nothing', () => {
    const before = git(folder, '-C', 'there.git', 'for-each-ref')
    const id = commit('second', WORK)
    git(here, 'tag', 'light')
    git(here, 'tag', '-a', 'heavy', '-m', 'heavy')
    for (const ref of ['main', 'main:other', 'light', 'heavy']) {
      const { status, stderr } = push('origin', ref)
      expect(status).toBe(1)
      expect(stderr).toContain(`${id.slice(0, 12)}  author ${WORK}, committer ${WORK}`)
    }
    expect(git(folder, '-C', 'there.git', 'for-each-ref')).toBe(before)
  })

  it('of another author’s annotated tag is refused, also through a tag that points to it', () => {
    const as = (email: string, ...args: string[]) =>
      git(here, '-c', `user.email=${email}`, 'tag', '-a', '-m', 'x', ...args)
    as(WORK, 'theirs')
    as(OWN, 'around', 'theirs')
    const id = git(here, 'rev-parse', 'theirs')
    for (const ref of ['theirs', 'around', 'theirs:refs/heads/other']) {
      const { status, stderr } = push('origin', ref)
      expect(status).toBe(1)
      expect(stderr).toContain(`1 of its tags is not by ${OWN}\n  ${id.slice(0, 12)}  tagger ${WORK}\n`)
      expect(stderr).not.toContain('git rebase')
    }
    expect(git(folder, '-C', 'there.git', 'for-each-ref', 'refs/tags', 'refs/heads/other')).toBe('')
    const typed = /git tag .*/.exec(push('origin', 'theirs').stderr)![0].replaceAll('TAG', 'theirs')
    execFileSync('sh', ['-c', `${typed} -m mine`], { cwd: here, env: environment(), stdio: 'ignore' })
    expect(push('origin', 'theirs')).toEqual({ status: 0, stderr: '' })
  })

  it('of the user’s own tags passes, whatever they point to, and so do tags without a tagger', () => {
    git(here, 'tag', '-a', '-m', 'x', 'mine')
    git(here, 'tag', '-a', '-m', 'x', 'of-a-tree', 'HEAD^{tree}')
    const anonymous = `object ${git(here, 'rev-parse', 'HEAD')}\ntype commit\ntag old\n\ntagger W <${WORK}> 1 +0000\n`
    const id = execFileSync('git', ['mktag', '--no-strict'], {
      cwd: here,
      env: environment(),
      encoding: 'utf8',
      input: anonymous,
    })
    git(here, 'update-ref', 'refs/tags/old', id.trim())
    expect(push('origin', 'mine', 'of-a-tree', 'old')).toEqual({ status: 0, stderr: '' })
  })

  it('of a tag whose tagger is not UTF-8, or has no address, is checked too', () => {
    const createTag = (tagger: Buffer) => {
      const head = `object ${git(here, 'rev-parse', 'HEAD')}\ntype commit\ntag odd\n`
      const input = Buffer.concat([Buffer.from(head), tagger, Buffer.from('\n\nx\n')])
      const args = ['hash-object', '-t', 'tag', '-w', '--stdin', '--literally']
      const id = execFileSync('git', args, { cwd: here, env: environment(), input }).toString().trim()
      git(here, 'update-ref', 'refs/tags/odd', id)
    }
    createTag(Buffer.from(`tagger J\xf6rg <${WORK}> 1700000000 +0000`, 'latin1'))
    expect(push('origin', 'odd').stderr).toContain(`tagger ${WORK}`)
    createTag(Buffer.from('tagger nobody at all'))
    expect(push('origin', 'odd')).toMatchObject({ status: 1 })
  })

  it('is refused if only the committer differs', () => {
    git(
      here,
      '-c',
      `author.email=${OWN}`,
      '-c',
      `committer.email=${WORK}`,
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'x',
    )
    const { status, stderr } = push('origin', 'main')
    expect(status).toBe(1)
    expect(stderr).toMatch(/[0-9a-f]{12} {2}committer work@corp\.example\n/)
    expect(stderr).not.toContain('author work')
  })

  it('ignores commits that a remote already has, by any author', () => {
    commit('second', WORK)
    expect(pushWith({ CRAIK_ALLOW_AUTHORS: '1' }, 'origin', 'main').status).toBe(0)
    commit('third')
    expect(push('origin', 'main')).toEqual({ status: 0, stderr: '' })
    expect(push('origin', 'main:other', 'main:another')).toEqual({ status: 0, stderr: '' })
  })

  it('of a deletion, of nothing, or of an object that is not a commit passes', () => {
    expect(push('origin', 'main:gone')).toMatchObject({ status: 0 })
    commit('second', WORK)
    expect(push('origin', ':gone')).toMatchObject({ status: 0 })
    expect(push('origin', 'HEAD~1:main')).toMatchObject({ status: 0 })
    git(here, 'tag', 'blob', git(here, 'hash-object', '-w', '--no-filters', join(folder, 'config')))
    expect(push('origin', 'blob')).toMatchObject({ status: 0 })
  })

  it('over a history that changed on the remote is checked too', () => {
    git(folder, 'clone', '-q', 'there.git', 'elsewhere')
    const elsewhere = join(folder, 'elsewhere')
    git(elsewhere, 'commit', '-q', '--allow-empty', '-m', 'theirs')
    git(elsewhere, 'push', '-q', 'origin', 'main')
    commit('second', WORK)
    expect(push('--force', 'origin', 'main').stderr).toContain(WORK)
  })

  it('of many commits lists the first ten and counts the rest', () => {
    const lines = Array.from({ length: 2000 }, (_, at) => [
      `commit refs/heads/main\ncommitter W <${WORK}> ${1_700_000_000 + at} +0000\ndata 1\nx\n`,
      at === 0 ? 'from refs/heads/main^0\n' : '',
    ])
    execFileSync('git', ['fast-import', '--quiet'], {
      cwd: here,
      env: environment(),
      input: lines.flat().join(''),
    })
    const { status, stderr } = push('origin', 'main')
    expect(status).toBe(1)
    expect(stderr).toContain('2000 of its commits are not by')
    expect(stderr.match(/author work@corp/g)).toHaveLength(10)
    expect(stderr).toContain('and 1990 more')
  })

  it('prints no control character from an address', () => {
    commit('second', 'a\x1b[31m@corp.example')
    const { stderr } = push('origin', 'main')
    expect(stderr).toContain('a?[31m@corp.example')
    expect(stderr).not.toContain('\x1b')
  })

  it('passes without a configured user, because there is nothing to compare with', () => {
    writeFileSync(join(folder, 'config'), `[core]\nhooksPath = ${HOOKS}\n`)
    git(here, '-c', 'user.name=W', '-c', `user.email=${WORK}`, 'commit', '-q', '--allow-empty', '-m', 'x')
    expect(push('origin', 'main')).toEqual({ status: 0, stderr: '' })
  })

  it('passes after the commands that it suggests: rewrite the authors, or allow them', () => {
    writeFileSync(join(here, 'file'), 'content')
    git(here, 'add', 'file')
    git(here, '-c', `user.email=${WORK}`, 'commit', '-q', '-m', 'second')
    commit('third')
    const typed = /git rebase .*/.exec(push('origin', 'main').stderr)![0]
    execFileSync('sh', ['-c', typed], { cwd: here, env: environment(), stdio: 'ignore' })
    expect(push('origin', 'main')).toEqual({ status: 0, stderr: '' })
    expect(git(here, 'log', '--format=%ae %s')).toBe(`${OWN} third\n${OWN} second\n${OWN} first`)
    commit('fourth', WORK)
    git(here, 'config', '--add', 'craik.allowedAuthor', 'other@corp.example')
    expect(push('origin', 'main').status).toBe(1)
    git(here, 'config', '--add', 'craik.allowedAuthor', WORK)
    expect(push('origin', 'main')).toEqual({ status: 0, stderr: '' })
  })
})
