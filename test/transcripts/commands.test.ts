/** `craik transcripts`, as a user types it: for a home folder on the host and for a sandbox. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import {
  addOpencodeSession,
  jsonl,
  LINES,
  openOpencodeDatabase,
  PATHS,
  SESSION,
  type TranscriptExchange,
  TWO,
} from '../../src/transcripts/transcripts.fixture.ts'
import { builtMain, environmentOf, NODE, TestHome } from '../craik.ts'

interface Listed {
  readonly harness: string
  readonly id: string
  readonly turns: number
  readonly about: string
}
interface ExportedRow {
  readonly path: string
  readonly outcome: string
}

/** Writes a home folder with a conversation of each program. The database of the last one is closed. */
function fill(folder: string, exchanges: readonly TranscriptExchange[] = TWO): void {
  const write = (path: string, content: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  for (const [harness, lines] of Object.entries(LINES))
    write(PATHS[harness as keyof typeof LINES], jsonl(lines(exchanges)))
  write(PATHS.opencode, '')
  using database = openOpencodeDatabase(join(folder, PATHS.opencode))
  addOpencodeSession(database, exchanges)
}

let home: TestHome
let user: string
beforeAll(() => {
  home = new TestHome()
  user = home.path('user')
  fill(user)
})
afterAll(() => home[Symbol.dispose]())

describe('transcripts of a folder', () => {
  it('are listed, for all programs or for one', async () => {
    const listed = await home.json<Listed[]>(['transcripts', 'list', '--home', user])
    expect(listed.map(({ harness }) => harness).sort()).toEqual([
      'claude-code',
      'codex',
      'gemini',
      'kimi',
      'opencode',
    ])
    expect(new Set(listed.map(({ turns }) => turns))).toEqual(new Set([4]))
    const args = ['transcripts', 'list', '--home', user, '--harness', 'codex', '--format', 'table']
    const { stdout } = await home.run(args)
    expect(stdout).toMatch(new RegExp(`^ {2}${SESSION} +codex +2026-11-15 09:12 +4 +why does`, 'm'))
    // Without options, Craik lists the conversations of the user who runs the command.
    expect(await home.json(['transcripts', 'list'])).toEqual([])
  })

  it('are shown as Markdown by the beginning of an id, and as JSON', async () => {
    const shown = await home.run(['transcripts', 'show', 'ses_', '--home', user])
    expect(shown).toMatchObject({ code: 0, stderr: '' })
    expect(shown.stdout).toMatch(/^---\ntitle: "the parser"\nharness: opencode\n/)
    expect(shown.stdout.match(/^## (?:user|assistant)$/gm)).toHaveLength(4)
    const data = await home.json<{ turns: unknown[] }>([
      'transcripts',
      'show',
      'ses_',
      '--home',
      user,
      '--format',
      'json',
    ])
    expect(data.turns).toHaveLength(4)
    const none = await home.run(['transcripts', 'show', 'nobody', '--home', user])
    expect(none).toMatchObject({ code: ERRORS.not_found.exit, stdout: '' })
    const both = await home.run(['transcripts', 'show', 's', '--home', user])
    expect(both).toMatchObject({ code: ERRORS.conflict.exit, stdout: '' })
  })

  it('can be searched', async () => {
    const found = await home.json<{ turn: number; where: string; excerpt: string }[]>([
      'transcripts',
      'search',
      'NPM test',
      '--home',
      user,
    ])
    expect(found).toHaveLength(5)
    expect(found[0]).toMatchObject({ turn: 2, role: 'assistant', where: 'tool' })
    expect(found[0]!.excerpt).toContain('npm test -- parser')
    expect(await home.json(['transcripts', 'search', 'nobody said this', '--home', user])).toEqual([])
    expect(await home.run(['transcripts', 'search', ' '])).toMatchObject({ code: ERRORS.usage.exit })
  })

  it('are listed with a warning for each source that was not read', async () => {
    const other = home.path('other')
    fill(other)
    rmSync(join(other, '.codex'), { recursive: true })
    symlinkSync(join(user, '.codex'), join(other, '.codex'))
    writeFileSync(join(other, PATHS.opencode), 'no database')
    const { code, stdout, stderr } = await home.run(['transcripts', 'list', '--home', other])
    expect([code, (JSON.parse(stdout) as Listed[]).length]).toEqual([0, 3])
    expect(stderr).toContain('craik: .codex is a symbolic link; Craik does not follow it\n')
    expect(stderr).toMatch(/craik: \S+opencode\.db is not a readable database: /)
  })

  it('are refused for two sources, and for a home folder that does not exist', async () => {
    const two = await home.run(['transcripts', 'list', '--home', user, '--sandbox', 'x'])
    expect(two).toMatchObject({ code: ERRORS.usage.exit, stdout: '' })
    expect(await home.run(['transcripts', 'list', '--home', home.path('none')])).toMatchObject({
      code: ERRORS.not_found.exit,
    })
  })

  it('are exported to the inbox in the environment, with secrets masked', async () => {
    const key = ['gh', 'p_', 'a1B2c3D4e5F6g7H8i9J0'.repeat(2).slice(0, 36)].join('')
    const secret = home.path('secret')
    fill(secret, [
      { prompt: `use ${key}`, tool: { runs: `echo ${key}`, output: key }, answer: `used ${key}` },
    ])
    const env = { SANDBOX_INBOX_DIR: home.path('own-inbox') }
    const rows = await home.json<ExportedRow[]>(['transcripts', 'export', '--home', secret], { env })
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(5).fill('written'))
    for (const { path } of rows) {
      expect(path.startsWith(home.path('own-inbox/conversations/'))).toBe(true)
      expect(path + readFileSync(path, 'utf8')).not.toContain(key.slice(6))
    }
    const listed = await home.run(['transcripts', 'list', '--home', secret])
    const found = await home.run(['transcripts', 'search', key.slice(6, 30), '--home', secret])
    expect(listed.stdout + found.stdout).not.toContain(key.slice(6))
    // The documented default.
    const [row] = await home.json<ExportedRow[]>([
      'transcripts',
      'export',
      '--home',
      user,
      '--harness',
      'kimi',
    ])
    expect(row!.path.startsWith(home.path('inbox/conversations/'))).toBe(true)
  })
})

describe('an export that is killed', () => {
  it('leaves only complete files at any moment, and the next one finishes', async () => {
    const many = home.path('many')
    for (let i = 0; i < 20; i++) {
      const path = join(many, PATHS.kimi.replace(SESSION, `${SESSION}-${i}`))
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, jsonl(LINES.kimi([{ prompt: `task ${i}`, answer: 'x'.repeat(20_000) }])))
    }
    const inbox = home.path('killed-inbox')
    const args = [builtMain(), 'transcripts', 'export', '--home', many, '--inbox', inbox]
    for (const afterMs of [150, 200, 250, 300, 400, 500]) {
      const child = spawn(NODE, args, { env: environmentOf(home), stdio: 'ignore' })
      const ended = once(child, 'close')
      await sleep(afterMs)
      child.kill('SIGKILL')
      await ended
    }
    const rows = await home.json<ExportedRow[]>(args.slice(1))
    expect(rows.filter(({ outcome }) => outcome === 'edited' || outcome === 'gone')).toEqual([])
    const files = readdirSync(inbox, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.(?:md|tmp)$/.test(name),
    )
    expect(files).toHaveLength(20)
    const wanted = `\n\n${'x'.repeat(20_000)}\n`
    expect(files.filter((name) => !readFileSync(join(inbox, name), 'utf8').endsWith(wanted))).toEqual([])
    expect(await home.json(args.slice(1))).toEqual([])
  })
})

describe('transcripts of a sandbox', () => {
  const home = new TestHome()
  beforeAll(async () => {
    fill(home.path('made'))
    await home.json(['sandbox', 'create', '--name', 'parser', '--credentials', 'none'])
    for (const folder of ['.claude', '.codex', '.gemini', '.kimi-code', '.local'])
      await home.json(['sandbox', 'cp', home.path('made', folder), `parser:../${folder}`])
  })
  afterAll(async () => {
    await home.run(['sandbox', 'delete', '--all', '--yes'])
    await home.run(['supervisor', 'stop'])
    home[Symbol.dispose]()
  })

  it('are read from its home folder, also while they are written', async () => {
    const listed = await home.json<Listed[]>(['transcripts', 'list', '--sandbox', 'parser'])
    expect(listed.map(({ harness, turns }) => [harness, turns]).sort()).toEqual([
      ['claude-code', 4],
      ['codex', 4],
      ['gemini', 4],
      ['kimi', 4],
      ['opencode', 4],
    ])
    const { stdout } = await home.run(['transcripts', 'show', 'ses_', '--sandbox', 'parser'])
    expect(stdout).toMatch(/^sandbox: "sbx_/m)
  })

  it('are exported once, and updated in place', async () => {
    const args = ['transcripts', 'export', '--sandbox', 'parser', '--inbox', home.path('inbox')]
    expect(await home.json<ExportedRow[]>(args)).toHaveLength(5)
    expect(await home.json(args)).toEqual([])
    const more = jsonl(LINES.kimi([...TWO, { prompt: 'and then?', answer: 'Nothing more.' }]))
    writeFileSync(home.path('more.jsonl'), more)
    await home.json(['sandbox', 'cp', home.path('more.jsonl'), `parser:../${PATHS.kimi}`])
    const [row, ...others] = await home.json<ExportedRow[]>(args)
    expect([row!.outcome, others]).toEqual(['updated', []])
    expect(readFileSync(row!.path, 'utf8')).toContain('Nothing more.')
  })

  it('that are links, pipes, unreadable files or huge files are skipped', async () => {
    const inside = `
      cd ~ && mkdir -p .codex/sessions/2026/11/16 .gemini/tmp/x/chats
      ln -s /etc/passwd .codex/sessions/2026/11/16/rollout-link.jsonl
      ln -s / .codex/sessions/2026/root
      mkfifo .gemini/tmp/x/chats/session-pipe.jsonl
      printf '{}' > .gemini/tmp/x/chats/session-closed.jsonl
      chmod 0 .gemini/tmp/x/chats/session-closed.jsonl
      truncate -s 300M .gemini/tmp/x/chats/session-hole.jsonl`
    expect(await home.run(['sandbox', 'exec', 'parser', '--', 'sh', '-ec', inside])).toMatchObject({
      code: 0,
    })
    const args = ['transcripts', 'list', '--sandbox', 'parser']
    const { stdout, stderr } = await home.run(args)
    expect((JSON.parse(stdout) as Listed[]).map(({ id }) => typeof id)).toEqual(Array(5).fill('string'))
    for (const message of [
      '.codex/sessions/2026/11/16/rollout-link.jsonl was skipped: it is a symbolic link, which Craik does not follow\n',
      '.gemini/tmp/x/chats/session-pipe.jsonl was skipped: it is a pipe\n',
      '.gemini/tmp/x/chats/session-closed.jsonl was skipped: it cannot be read by the sandbox user\n',
    ])
      expect(stderr).toContain(message)
    const exported = await home.run([
      'transcripts',
      'export',
      '--sandbox',
      'parser',
      '--harness',
      'codex',
      '--inbox',
      home.path('inbox'),
    ])
    expect(exported.stderr).toContain('rollout-link.jsonl was skipped: it is a symbolic link')
    expect(JSON.parse(exported.stdout)).toEqual([])
  })

  it('of a sandbox that is stopped or has no isolation are refused with an error', async () => {
    await home.json(['sandbox', 'create', '--name', 'here', '--isolation', 'none'])
    const here = await home.run(['transcripts', 'list', '--sandbox', 'here'])
    expect(here).toMatchObject({ code: ERRORS.usage.exit, stdout: '' })
    expect(here.stderr).toContain('craik transcripts list')
    await home.json(['sandbox', 'stop', 'parser'])
    const stopped = await home.run(['transcripts', 'list', '--sandbox', 'parser'])
    expect(stopped).toMatchObject({ code: ERRORS.sandbox_stopped.exit, stdout: '' })
  })
})
