/** `craik secret` and `craik command` as a user runs them: real processes, a real store, a real terminal. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../src/lib/never-aborted.fixture.ts'
import { resolveSecret } from '../../src/secrets/resolve.ts'

import { homeAt } from '../../src/store/home.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { builtMain, environmentOf } from '../craik.ts'

const CANARY = 'canary-b81e03-value'

let folder: string
let env: Record<string, string>
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-secret-cli-'))
  env = { ...environmentOf({ folder, home: join(folder, 'home') }), TERM: 'xterm' }
})
afterEach(() => rmSync(folder, { recursive: true }))

interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

function craik(argv: readonly string[], input = ''): Ran {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtMain(), ...argv], {
    env,
    input,
    encoding: 'utf8',
  })
  return { code: status, stdout, stderr }
}

const json = (ran: Ran) => JSON.parse(ran.stdout) as unknown

async function resolveText(name: string): Promise<string> {
  const home = homeAt(env.CRAIK_HOME)
  await using store = await openSqliteStore(home, new URL('../../src/writer.ts', import.meta.url))
  return (await resolveSecret(store, home, env, name, NEVER_ABORTED)).toString()
}

async function receiptLines(): Promise<readonly string[]> {
  await using store = await openSqliteStore(
    homeAt(env.CRAIK_HOME),
    new URL('../../src/writer.ts', import.meta.url),
  )
  return (await store.read((tables) => tables.receipts.scan(0, 100))).map((row) => row.line)
}

/** Returns every byte in the Craik home. */
function homeBytes(): Buffer {
  const entries = readdirSync(env.CRAIK_HOME!, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return Buffer.concat(files.map((entry) => readFileSync(join(entry.parentPath, entry.name))))
}

describe('craik secret', () => {
  it('binds, lists, checks and removes a name, with a receipt for each change', async () => {
    env.SOME_VAR = CANARY
    const bound = craik(['secret', 'bind', 'KEY', '--env', 'SOME_VAR'])
    expect(bound).toMatchObject({ code: 0, stderr: '' })
    expect(json(bound)).toEqual({ name: 'KEY', source: 'env', reference: 'SOME_VAR', replaced: false })

    const list = craik(['secret', 'list', '--format', 'table'])
    expect(list.stdout).toMatch(/^ {2}name +source +reference +updated\n {2}KEY +env +SOME_VAR +\d{4}-/)

    const ok = craik(['secret', 'check', 'KEY', '--format', 'table'])
    expect(ok).toEqual({ code: 0, stdout: '  ok  KEY ← env SOME_VAR\n', stderr: '' })
    delete env.SOME_VAR
    const failed = craik(['secret', 'check', 'KEY'])
    expect(failed.code).toBe(69)
    expect(json(failed)).toMatchObject({
      status: 'unavailable',
      reason: expect.stringContaining('env SOME_VAR'),
    })

    expect(craik(['secret', 'remove', 'KEY', '--format', 'table']).stdout).toBe('  removed  KEY\n')
    const unknown = craik(['secret', 'check', 'KEY'])
    expect(unknown.code).toBe(3)
    expect(unknown.stderr).toContain('unknown secret KEY\n')

    const bodies = (await receiptLines()).map((line) => JSON.parse(line).body)
    expect(bodies).toMatchObject([
      { operation: 'bind', target: 'secret/KEY', links: { secret_ref: 'KEY' }, metadata: { source: 'env' } },
      {
        operation: 'remove',
        target: 'secret/KEY',
        links: { secret_ref: 'KEY' },
        metadata: { source: 'env' },
      },
    ])
    expect(JSON.stringify([bound, list, ok, failed])).not.toContain(CANARY)
    expect(homeBytes().includes(CANARY)).toBe(false)
  })

  it('reports in one line what was bound, and what was replaced', () => {
    const bind = ['secret', 'bind', 'OPENAI_API_KEY', '--env', 'OPENAI_API_KEY', '--format', 'table']
    expect(craik(bind).stdout).toBe('  bound  OPENAI_API_KEY → env OPENAI_API_KEY\n')
    expect(craik(bind).stdout).toBe('  rebound  OPENAI_API_KEY → env OPENAI_API_KEY\n')
  })

  it('reads a value from a pipe, and never shows it', async () => {
    const set = craik(['secret', 'set', 'OPENAI_API_KEY'], `${CANARY}\n`)
    expect(set).toMatchObject({ code: 0, stderr: '' })
    const shown = [set, craik(['secret', 'list']), craik(['secret', 'check', 'OPENAI_API_KEY'])]
    expect(shown.map((ran) => ran.code)).toEqual([0, 0, 0])
    expect(JSON.stringify(shown)).not.toContain(CANARY)
    expect(homeBytes().includes(CANARY)).toBe(false)
    expect(await resolveText('OPENAI_API_KEY')).toBe(CANARY)
    expect((await receiptLines()).join()).toContain('"target":"secret/OPENAI_API_KEY"')
  })

  it.each([
    ['an argument', ['KEY', CANARY]],
    ['an option', ['KEY', `--value=${CANARY}`]],
    ['an option before the name', [`--value=${CANARY}`, 'KEY']],
    ['an option and its value', ['KEY', '--value', CANARY]],
    ['a part of the name', [`KEY=${CANARY}`]],
    ['an option instead of the name', [`--value=${CANARY}`]],
  ])('refuses a value that is given as %s, without repeating it', (_what, argv) => {
    const ran = craik(['secret', 'set', ...argv], 'piped')
    expect(ran.code).toBe(2)
    expect(`${ran.stdout}${ran.stderr}`).not.toContain(CANARY)
    expect(json(craik(['secret', 'list']))).toEqual([])
  })

  it('refuses an empty value, a huge value, no source, and two sources', () => {
    expect(craik(['secret', 'set', 'KEY'], '\n').code).toBe(2)
    expect(craik(['secret', 'set', 'KEY'], 'x'.repeat(70_000)).code).toBe(5)
    expect(craik(['secret', 'bind', 'KEY']).code).toBe(2)
    expect(craik(['secret', 'bind', 'KEY', '--env', 'A', '--file', '/b']).code).toBe(2)
  })

  it('reports a file that other users can read, and how to fix it', () => {
    const path = join(folder, 'key')
    writeFileSync(path, CANARY, { mode: 0o644 })
    craik(['secret', 'bind', 'KEY', '--file', path])
    const ran = craik(['secret', 'check', 'KEY', '--format', 'table'])
    expect(ran.code).toBe(67)
    expect(ran.stdout).toContain(`chmod 600 ${path}`)
    expect(ran.stdout).not.toContain(CANARY)
  })
})

describe('craik command', () => {
  it('registers an argv after two dashes, and a secret is read from its output', async () => {
    const argv = ['printf', '%s\\n', '--format', 'x y']
    const registered = craik(['command', 'register', 'manager', '--format', 'table', '--', ...argv])
    expect(registered).toEqual({
      code: 0,
      stderr: '',
      stdout: "  registered  manager → printf '%s\\n' --format 'x y'\n",
    })
    expect(json(craik(['command', 'list']))).toMatchObject([{ ref: 'manager', argv }])
    expect(craik(['command', 'register', 'manager', '--', 'other']).code).toBe(4)

    craik(['secret', 'bind', 'KEY', '--command', 'manager'])
    expect(await resolveText('KEY')).toBe('--format\nx y')

    const removed = craik(['command', 'remove', 'manager', '--format', 'table'])
    expect(removed.stdout).toContain('KEY no longer has a source')
    expect(craik(['secret', 'check', 'KEY']).code).toBe(69)
    expect(craik(['command', 'remove', 'manager']).code).toBe(3)
  })

  it('refuses a secret among the arguments without repeating it', () => {
    const token = ['ghp', 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'].join('_')
    const ran = craik(['command', 'register', 'tool', '--', 'curl', '-H', `Authorization: Bearer ${token}`])
    expect(ran.code).toBe(2)
    expect(ran.stderr).toContain('craik secret bind')
    expect(ran.stderr).not.toContain(token)
  })
})

/** script(1) of util-linux gives a command a terminal. The script(1) of macOS takes other arguments. */
const SCRIPT = 'script'
const hasScript = spawnSync(SCRIPT, ['--version']).stdout?.includes('util-linux') ?? false

describe.runIf(hasScript)('the prompt on a terminal', () => {
  it('hides typed, corrected and pasted input, and restores the terminal', async () => {
    const terminal = new Terminal(`"${process.execPath}" "${builtMain()}" secret set KEY; stty -a`)
    await terminal.shows('not shown')
    await terminal.type('wrong\x15')
    await terminal.type(`x\x7f${CANARY.slice(0, 5)}`)
    await terminal.type(`\x1b[200~${CANARY.slice(5)}\x1b[201~`)
    await terminal.type('\r')
    expect(await terminal.waitForExit()).toBe(0)
    expect(terminal.output).toContain('  stored  KEY')
    expect(terminal.output).not.toContain(CANARY.slice(0, 5))
    expect(terminal.output).not.toContain(CANARY.slice(5))
    expect(terminal.output).not.toContain('wrong')
    expect(terminal.output).toMatch(/[^-]icanon/)
    expect(terminal.output).toMatch(/[^-]echo /)
    expect(await resolveText('KEY')).toBe(CANARY)
  })

  it('shows a typed value when echo is on, which proves that the previous test can fail', async () => {
    const terminal = new Terminal('read line')
    await terminal.type(`${CANARY}\r`)
    await terminal.waitForExit()
    expect(terminal.output).toContain(CANARY)
  })

  it('stops on Ctrl-C and stores nothing', async () => {
    const terminal = new Terminal(`"${process.execPath}" "${builtMain()}" secret set KEY`)
    await terminal.shows('not shown')
    await terminal.type('half\x03')
    expect(await terminal.waitForExit()).toBe(130)
    expect(terminal.output).not.toContain('half')
    expect(json(craik(['secret', 'list']))).toEqual([])
  })

  it('refuses a paste of several lines without paste markers, and the shell gets none of it', async () => {
    const terminal = new Terminal(
      `"${process.execPath}" "${builtMain()}" secret set KEY; read -t 1 rest; echo "rest: [$rest]"`,
    )
    await terminal.shows('not shown')
    await terminal.type(`first\r${CANARY}\r`)
    expect(await terminal.waitForExit()).not.toBe(null)
    expect(terminal.output).toContain('several lines')
    expect(terminal.output).toContain('rest: []')
    expect(terminal.output).not.toContain(CANARY)
  })
})

/** A command under script(1), which gives it a terminal of its own. */
class Terminal {
  readonly #child: ChildProcess
  readonly #exit: Promise<number | null>
  output = ''

  constructor(command: string) {
    this.#child = spawn(SCRIPT, ['-qec', command, '/dev/null'], { env: { ...env, SHELL: '/bin/bash' } })
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.on('data', (chunk: Buffer) => {
        this.output += chunk.toString()
      })
    this.#exit = new Promise((done) => this.#child.once('close', done))
  }

  async shows(text: string): Promise<void> {
    await expect.poll(() => this.output, { timeout: 10_000, interval: 20 }).toContain(text)
  }

  async type(text: string): Promise<void> {
    this.#child.stdin!.write(text)
    await new Promise((done) => setTimeout(done, 100))
  }

  waitForExit(): Promise<number | null> {
    return this.#exit
  }
}
