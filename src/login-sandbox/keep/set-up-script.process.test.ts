/** Tests the set-up of a login's home, with a real shell and as a user who is not root. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LLM_STATE, VOLUME_LINKS } from './mirrors.ts'
import { type SetUpOptions, setUpScript } from './set-up-script.ts'

/** Tests that run as root find no permission bug, so the script runs as another user. */
const USER = process.geteuid?.() === 0 ? { uid: 12345, gid: 12345 } : {}
const GIT = { name: 'Octo Cat', email: 'octo@example.com' }

let home: string
beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'craik-set-up-')))
  own(home)
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

function own(path: string): void {
  if (USER.uid !== undefined) chownSync(path, USER.uid, USER.gid)
}

function sh(
  input: string,
  args: readonly string[] = ['-s'],
): { code: number | null; stderr: string; stdout: string } {
  const { status, stderr, stdout } = spawnSync('/bin/sh', args, {
    input,
    ...USER,
    cwd: '/',
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: '/nowhere' },
  })
  return { code: status, stderr, stdout }
}

function setUp(options: Partial<SetUpOptions> = {}): void {
  expect(sh(setUpScript({ home, git: GIT, ...options }))).toEqual({ code: 0, stderr: '', stdout: '' })
}

/** Writes a file as the script's user. */
function write(path: string, content: string): void {
  const at = join(home, path)
  spawnSync('mkdir', ['-p', dirname(at)], USER)
  writeFileSync(at, content)
  own(at)
}
const read = (path: string) => readFileSync(join(home, path), 'utf8')
const git = (...args: string[]) =>
  execFileSync('git', ['config', '--global', ...args], {
    ...USER,
    cwd: '/',
    env: { PATH: process.env.PATH, HOME: home },
    encoding: 'utf8',
  })
    .trim()
    .split('\n')
const isLink = (path: string) => lstatSync(join(home, path)).isSymbolicLink()

/** Returns every path below the home with its properties. Another run must not change any of them. */
function picture(): string {
  return execFileSync('find', [home, '-printf', '%P %y %l %m %s %T@\n'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => !line.startsWith('.gitconfig') && !line.startsWith(' '))
    .sort()
    .join('\n')
}

describe('a new home', () => {
  it('gets a link for each stored path, and git over HTTPS under the login’s name', () => {
    setUp()
    for (const { home: at, volume, kind } of VOLUME_LINKS) {
      expect(readlinkSync(join(home, at))).toBe(join(home, LLM_STATE, volume))
      if (kind === 'folder') expect(lstatSync(join(home, LLM_STATE, volume)).isDirectory()).toBe(true)
    }
    expect(git('--get-all', 'url.https://github.com/.insteadOf')).toEqual([
      'git@github.com:',
      'ssh://git@github.com/',
    ])
    expect(git('--list')).toEqual(
      expect.arrayContaining([
        'user.name=Octo Cat',
        'user.email=octo@example.com',
        'commit.gpgsign=false',
        'tag.gpgsign=false',
      ]),
    )
  })

  it('does not change in another run', () => {
    setUp()
    write(`${LLM_STATE}/claude/projects/-x/a.jsonl`, 'a')
    const [before, config] = [picture(), read('.gitconfig')]
    setUp()
    expect(picture()).toBe(before)
    expect(read('.gitconfig')).toBe(config)
  })

  it('gets another git author, and keeps the user’s other settings', () => {
    setUp()
    git('core.editor', 'vi')
    git('--add', 'url.https://github.com/.insteadOf', 'gh:')
    setUp({ git: { name: 'Other', email: 'other@example.com' } })
    expect(git('user.name')).toEqual(['Other'])
    expect(git('core.editor')).toEqual(['vi'])
    expect(git('--get-all', 'url.https://github.com/.insteadOf')).toHaveLength(3)
  })

  it('rewrites both forms of a GitHub repository’s address', () => {
    setUp()
    for (const url of ['git@github.com:octo/hello.git', 'ssh://git@github.com/octo/hello.git']) {
      const rewritten = execFileSync('git', ['ls-remote', '--get-url', url], {
        cwd: '/',
        env: { PATH: process.env.PATH, HOME: home },
        encoding: 'utf8',
      })
      expect(rewritten.trim()).toBe('https://github.com/octo/hello.git')
    }
  })

  it('gets the given settings where none exist, and keeps existing ones', () => {
    const settings = [
      { path: '.claude.json', content: '{"theme": "it\'s dark"}\n' },
      { path: '.config/opencode/opencode.json', content: '{}\n' },
      { path: '.codex/rules/craik.rules', content: 'not kept in the volume' },
    ]
    setUp({ settings })
    expect(read('.claude.json')).toBe('{"theme": "it\'s dark"}\n')
    expect(read('.config/opencode/opencode.json')).toBe('{}\n')
    expect(readdirSync(join(home, '.codex'))).not.toContain('rules')
    write(`${LLM_STATE}/claude/claude.json`, 'of the user')
    setUp({ settings })
    expect(read('.claude.json')).toBe('of the user')
  })
})

describe('a stale git lock', () => {
  it('does not prevent the set-up', () => {
    write('.gitconfig.lock', '')
    setUp()
    expect(git('user.name')).toEqual(['Octo Cat'])
    expect(readdirSync(home)).not.toContain('.gitconfig.lock')
  })
})

describe('existing files', () => {
  it('move into the volume, with folders and hidden files', () => {
    write('.claude/projects/-x/a.jsonl', 'a')
    write('.claude/projects/-x/.hidden', 'h')
    write('.claude/projects/-x/y z/b.jsonl', 'b')
    write('.claude/.credentials.json', 'a login')
    write('.codex/config.toml', 'mine = 1\n')
    setUp()
    expect(isLink('.claude/projects')).toBe(true)
    expect(read(`${LLM_STATE}/claude/projects/-x/a.jsonl`)).toBe('a')
    expect(read('.claude/projects/-x/.hidden')).toBe('h')
    expect(read('.claude/projects/-x/y z/b.jsonl')).toBe('b')
    expect(read(`${LLM_STATE}/codex/config.toml`)).toBe('mine = 1\n')
    expect(isLink('.codex/config.toml')).toBe(true)
    expect(isLink('.claude/.credentials.json')).toBe(false)
    expect(readdirSync(join(home, LLM_STATE, 'claude')).sort()).toEqual(['agents', 'cache', 'projects'])
  })

  it('move next to a different file of the volume, or are removed when they are equal', () => {
    write(`${LLM_STATE}/claude/projects/-x/a.jsonl`, 'of the volume')
    write(`${LLM_STATE}/claude/projects/-x/same.jsonl`, 'same')
    write('.claude/projects/-x/a.jsonl', 'of the home')
    write('.claude/projects/-x/same.jsonl', 'same')
    setUp()
    expect(read('.claude/projects/-x/a.jsonl')).toBe('of the volume')
    expect(read('.claude/projects/-x/a.jsonl.set-aside-1')).toBe('of the home')
    expect(readdirSync(join(home, '.claude/projects/-x')).sort()).toEqual([
      'a.jsonl',
      'a.jsonl.set-aside-1',
      'same.jsonl',
    ])
  })

  it('include OpenCode’s database with its log', () => {
    mkdirSync(join(home, '.local/share/opencode'), { recursive: true })
    const path = join(home, '.local/share/opencode/opencode.db')
    const database = new DatabaseSync(path)
    database.exec(
      'PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x); INSERT INTO t VALUES(7)',
    )
    // This copy with the log is what a killed agent leaves behind.
    for (const suffix of ['', '-wal']) writeFileSync(join(home, `kept${suffix}`), readFileSync(path + suffix))
    database.close()
    for (const suffix of ['', '-wal']) writeFileSync(path + suffix, readFileSync(join(home, `kept${suffix}`)))
    execFileSync('chown', ['-R', `${USER.uid ?? process.geteuid!()}`, home])
    setUp()
    expect(isLink('.local/share/opencode/opencode.db')).toBe(true)
    const stored = new DatabaseSync(join(home, LLM_STATE, 'opencode/opencode.db'))
    expect(stored.prepare('SELECT x FROM t').all()).toEqual([{ x: 7 }])
    stored.close()
    expect(readdirSync(join(home, '.local/share/opencode'))).toEqual(['opencode.db'])
  })

  it('that are wrong links are replaced, and their targets stay unchanged', () => {
    write('elsewhere/a.jsonl', 'a')
    mkdirSync(join(home, '.claude'))
    own(join(home, '.claude'))
    symlinkSync(join(home, 'elsewhere'), join(home, '.claude/projects'))
    symlinkSync('/etc/passwd', join(home, '.claude.json'))
    setUp()
    expect(readlinkSync(join(home, '.claude/projects'))).toBe(join(home, LLM_STATE, 'claude/projects'))
    expect(readlinkSync(join(home, '.claude.json'))).toBe(join(home, LLM_STATE, 'claude/claude.json'))
    expect(read('elsewhere/a.jsonl')).toBe('a')
  })

  it('of a program that replaced its link are newer than the file in the volume', () => {
    setUp()
    write(`${LLM_STATE}/gemini/settings.json`, 'old')
    rmSync(join(home, '.gemini/settings.json'))
    write('.gemini/settings.json', 'new')
    setUp()
    expect(isLink('.gemini/settings.json')).toBe(true)
    expect(read('.gemini/settings.json')).toBe('new')
    expect(read(`${LLM_STATE}/gemini/settings.json.set-aside-1`)).toBe('old')
  })

  it('of a home that was created again are set aside, because the volume has the user’s own', () => {
    write(`${LLM_STATE}/gemini/settings.json`, 'of the user')
    write('.gemini/settings.json', 'as it comes')
    setUp()
    expect(read('.gemini/settings.json')).toBe('of the user')
    expect(read(`${LLM_STATE}/gemini/settings.json.set-aside-1`)).toBe('as it comes')
  })
})

it('loses nothing when it is killed before any step, and leaves nothing incomplete', () => {
  const files = Array.from({ length: 6 }, (_, i) => `-x/${i % 2}/${i}.jsonl`)
  const database = '.local/share/opencode/opencode.db'
  for (const file of files) write(`.claude/projects/${file}`, file)
  write('.gemini/settings.json', 'mine')
  for (const suffix of ['', '-wal', '-shm']) write(`${database}${suffix}`, `database${suffix}`)

  /** These programs kill the shell in place of the step with that number. */
  const steps = mkdtempSync(join(tmpdir(), 'craik-steps-'))
  chmodSync(steps, 0o777)
  for (const program of ['cp', 'mv', 'rm', 'rmdir', 'ln'])
    writeFileSync(
      join(steps, program),
      `#!/bin/sh
step=$(($(cat ${steps}/step) - 1))
echo "$step" >${steps}/step
[ "$step" -ne 0 ] || kill -9 "$PPID"
[ "$step" -ne 0 ] || exit 1
PATH=\${PATH#*:} exec ${program} "$@"
`,
      { mode: 0o755 },
    )
  const env = { PATH: `${steps}:${process.env.PATH}` }
  try {
    let runs = 0
    for (let step = 1; ; step = (step % 7) + 1) {
      writeFileSync(join(steps, 'step'), `${step}\n`, { mode: 0o666 })
      chmodSync(join(steps, 'step'), 0o666)
      const input = setUpScript({ home, git: GIT })
      const { signal, status } = spawnSync('/bin/sh', ['-s'], { input, ...USER, cwd: '/', env })
      if (signal === null) expect(status).toBe(0)
      if (signal === null) break
      expect(signal).toBe('SIGKILL')
      expect(runs++).toBeLessThan(100)
    }
    expect(runs).toBeGreaterThan(10)
  } finally {
    rmSync(steps, { recursive: true })
  }
  setUp()
  for (const file of files) expect(read(`.claude/projects/${file}`)).toBe(file)
  expect(read('.gemini/settings.json')).toBe('mine')
  for (const suffix of ['', '-wal', '-shm'])
    expect(read(`${LLM_STATE}/opencode/opencode.db${suffix}`)).toBe(`database${suffix}`)
  const left = execFileSync('find', [home, '-name', '*craik-moving', '-o', '-name', '*set-aside*'])
  expect(left.toString()).toBe('')
  const linked = read('.config/craik-links').split('\n').filter(Boolean)
  expect(linked.sort()).toEqual(VOLUME_LINKS.map((mirror) => mirror.home).sort())
})

describe('a failed step', () => {
  it('is reported, and the other steps still run', () => {
    write('elsewhere/x', '')
    symlinkSync(join(home, 'elsewhere'), join(home, '.codex'))
    const { code, stderr } = sh(setUpScript({ home, git: GIT }))
    expect(code).toBe(1)
    expect(stderr).toContain('could not link ~/.codex/sessions')
    expect(readdirSync(join(home, 'elsewhere'))).toEqual(['x'])
    expect(isLink('.claude/projects')).toBe(true)
    expect(git('user.name')).toEqual(['Octo Cat'])
  })

  it('leaves a folder that it cannot empty unchanged', () => {
    write('.claude/projects/-x/a.jsonl', 'a')
    chmodSync(join(home, '.claude/projects/-x'), 0o500)
    const { code, stderr } = sh(setUpScript({ home, git: GIT }))
    chmodSync(join(home, '.claude/projects/-x'), 0o700)
    expect(code).toBe(1)
    expect(stderr).toContain('could not link ~/.claude/projects')
    expect(read('.claude/projects/-x/a.jsonl')).toBe('a')
    setUp()
    expect(read('.claude/projects/-x/a.jsonl')).toBe('a')
    expect(isLink('.claude/projects')).toBe(true)
  })
})

it('accepts any git name and email unchanged, but no line breaks', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, maxLength: 40 }).filter((text) => /^[^\0\r\n]*\S[^\0\r\n]*$/.test(text)),
      (name) => {
        const script = setUpScript({ home, git: { name, email: `${name}@example.com` } })
        expect(sh(script)).toMatchObject({ code: 0, stderr: '' })
        const found = execFileSync('git', ['config', '--null', '--global', 'user.name'], {
          env: { PATH: process.env.PATH, HOME: home },
          encoding: 'utf8',
        })
        expect(found).toBe(`${name}\0`)
      },
    ),
    { numRuns: 15 },
  )
  expect(() => setUpScript({ home, git: { name: 'a\nb', email: 'x' } })).toThrow('contains a line break')
})
