/** The command line itself: help with usable examples, errors of one line, and nothing on stdout after an error. */
import { spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NOUNS } from '../../src/cli/nouns.ts'
import { ERRORS } from '../../src/errors.ts'
import type { Receipt } from '../../src/receipts/schema.ts'
import { builtMain, environmentOf, NODE, ROOT, run, TestHome } from '../craik.ts'
import { examplesIn } from './help.ts'
import { draft, openLog, TOKEN } from './live-log.ts'

let home: TestHome

beforeAll(async () => {
  home = new TestHome()
  await using live = await openLog(home.home)
  await Promise.all(Array.from({ length: 300 }, (_, i) => live.log.append(draft({ target: `target-${i}` }))))
})
afterAll(() => home[Symbol.dispose]())

const FIRST_COMMANDS = [
  'up',
  'down',
  'prompt',
  'run',
  'sandbox',
  'egress',
  'receipts',
  'budget',
  'accounts',
  'doctor',
]

describe('help', () => {
  it('fits one screen: the ten commands that users need first, how to list the others, and the exit codes', async () => {
    const { code, stdout, stderr } = await home.run(['--help'])
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trimEnd().split('\n')
    expect(lines.length).toBeLessThan(24)
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80)
    expect(parseCommands(stdout)).toEqual(FIRST_COMMANDS)
    expect(lines.filter((line) => /^[A-Z].*:$/.test(line))).toHaveLength(3)
    expect(stdout).toContain('craik help --all')
    expect(stdout).toContain('\nCommon exit codes: 0 ')
    for (const args of [[], ['help'], ['-h']]) expect((await home.run(args)).stdout).toBe(stdout)
  })

  it('with --all lists every command in its group, and examples', async () => {
    const { code, stdout, stderr } = await home.run(['help', '--all'])
    expect([code, stderr]).toEqual([0, ''])
    expect(parseCommands(stdout)).toEqual(NOUNS.map(({ name }) => name))
    const lines = stdout.split('\n')
    for (const { name, summary, group } of NOUNS) {
      expect(lines).toContain(group)
      expect(lines.map((line) => line.replace(/(?<=\S) {2,}/, ' '))).toContain(`  ${name} ${summary}`)
    }
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80)
    expect(examplesIn(stdout).length).toBeGreaterThanOrEqual(3)
    for (const args of [
      ['--help', '--all'],
      ['--all', '-h'],
    ])
      expect((await home.run(args)).stdout).toBe(stdout)
  })

  it('is the same for help <noun> <verb> and for --help', async () => {
    for (const words of [['receipts'], ['receipts', 'list'], ['shell']]) {
      const { code, stdout } = await home.run(['help', ...words])
      expect(code).toBe(0)
      expect(stdout).toContain(`Usage: craik ${words.join(' ')} `)
      expect((await home.run([...words, '--help'])).stdout).toBe(stdout)
    }
    expect(await home.run(['help', 'nonsense'])).toMatchObject({ code: 2, stdout: '' })
  })

  it('includes the version of the package, with --version', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
    for (const flag of ['--version', '-V']) expect((await home.run([flag])).stdout).toBe(`${version}\n`)
  })
})

describe('--json', () => {
  it.each([
    ['receipts', 'list', '--limit', '2'],
    ['provider', 'show', 'provider_openai'],
    ['budget', 'show'],
    ['secret', 'list'],
    ['grant', 'list'],
    ['whoami'],
  ])('is the same as --format json: %j', async (...args) => {
    const { code, stdout, stderr } = await home.run([...args, '--json'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe((await home.run([...args, '--format', 'json'])).stdout)
    expect(stdout).not.toBe((await home.run([...args, '--format', 'table'])).stdout)
    // The last format option wins.
    expect((await home.run([...args, '--format', 'table', '--json'])).stdout).toBe(stdout)
  })

  it('is an unknown option for a command without --format', async () => {
    expect(await home.run(['supervisor', 'logs', '--json'])).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('a mistake', () => {
  it.each([
    [['reciepts'], 2, 'Did you mean receipts?'],
    [['receipts', 'lst'], 2, 'Did you mean list?'],
    [['receipts', 'list', '--frmat', 'json'], 2, 'Did you mean --format?'],
    [['shell', 'ls', '-la'], 2, "craik shell 'ls -la'"],
    [['receipts'], 2, '--help'],
    [['receipts', 'show'], 2, '--help'],
    [['--nonsense'], 2, '--help'],
    [['shell', '--timeout', '5', 'true'], 2, '90s'],
    [['receipts', 'show', 'rcpt_unknown'], 3, 'craik receipts list'],
    [['grant', 'show', 'grant_unknown'], 3, 'craik grant list'],
    [['shell', '--profile', 'nonsense', 'true'], 2, '--help'],
  ])('%j exits with %i, one line, a hint, and nothing on stdout', async (args, expected, hint) => {
    const { code, stdout, stderr } = await home.run(args)
    expect(code).toBe(expected)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
    expect(stderr).toContain(hint)
  })

  it('such as a huge argument or too many of them is refused before parsing', async () => {
    for (const args of [['shell', `echo ${'x'.repeat(70_000)}`], ['x'.repeat(70_000)]]) {
      const { code, stdout, stderr } = await home.run(args)
      expect([code, stdout]).toEqual([ERRORS.too_large.exit, ''])
      expect(stderr).toMatch(/^craik: an argument of 70,\d{3} bytes is too large\n {2}pass at most [^\n]+\n$/)
    }
    const many = await home.run(['shell', ...Array.from({ length: 5000 }, () => 'x')])
    expect(many.code).toBe(ERRORS.too_large.exit)
    expect(many.stderr).toContain('arguments are too many')
  })

  // The secret is in place of a noun, an id, a number, a time, a flag or a file.
  const places: ((secret: string) => string[])[] = [
    (secret) => [secret],
    (secret) => ['help', secret],
    (secret) => ['receipts', secret],
    (secret) => ['receipts', 'show', secret],
    (secret) => ['receipts', 'show', `x ${secret}`],
    (secret) => ['receipts', 'list', '--limit', secret],
    (secret) => ['receipts', 'list', '--since', secret],
    (secret) => ['receipts', 'list', '--kind', secret],
    (secret) => ['receipts', 'list', '--session', `${secret} x`],
    (secret) => ['receipts', 'list', `--${secret}`],
    (secret) => ['receipts', 'verify', secret, '--public-key', secret],
    (secret) => ['receipts', 'export', '-o', `no/${secret}/x`],
    (secret) => ['shell', '--timeout', secret, 'true'],
    (secret) => ['shell', `no-such-program --token ${secret}`],
    (secret) => ['shell', secret],
    (secret) => ['shell', 'echo', secret],
    (secret) => ['shell', `echo "${secret}`],
    (secret) => ['grant', 'create', '--capability', secret, '--operation', 'run', '--any-scope'],
    (secret) => ['policy', 'check', secret],
    (secret) => ['secret', 'set', 'NAME', secret],
    (secret) => ['command', 'remove', secret],
  ]
  const secrets = [
    TOKEN,
    `github_pat_${'11ABCDEFG0'.repeat(2)}_${'aB3dE5gH7j'.repeat(5)}`,
    `sk-ant-api03-${'aB3dE5gH7jK9mN1pQ3sT'.repeat(4)}`,
  ]

  it.each(places.map((place) => [place('…').join(' '), place] as const))(
    'never repeats a secret: %s',
    async (_, place) => {
      const check = async (secret: string) => {
        const { code, stdout, stderr } = await home.run(place(secret), { env: { CRAIK_DEBUG: '1' } })
        expect(code).not.toBe(0)
        expect(stdout + stderr).not.toContain(secret)
        // The output does not contain the first half either, as a shortened value would.
        expect(stdout + stderr).not.toContain(secret.slice(0, 30))
      }
      await Promise.all(secrets.map(check))
    },
  )
})

describe('a Craik home', () => {
  it.each([
    ['that is a file', (): string => file('a-file'), 'home_unwritable'],
    ['under a file', (): string => join(file('another-file'), 'home'), 'home_unwritable'],
    ['where nothing can be created', (): string => '/sys/craik-home', 'home_unwritable'],
    ['that others can read', (): string => folder('open', 0o755), 'key_exposed'],
    ['that is a link', (): string => link(folder('private', 0o700)), 'key_exposed'],
  ] as const)('%s is refused with one clear line', async (_, path, error) => {
    const env = { CRAIK_HOME: path() }
    for (const args of [
      ['receipts', 'list'],
      ['shell', 'touch ran'],
    ]) {
      const { code, stdout, stderr } = await home.run(args, { env })
      expect([code, stdout]).toEqual([ERRORS[error].exit, ''])
      expect(stderr).toMatch(/^craik: [^\n]*home folder[^\n]*\n {2}[^\n]+\n$/)
    }
  })

  it('is created on first use, for its owner only', async () => {
    using fresh = new TestHome()
    const { code } = await run('/bin/sh', ['-c', `umask 000; exec "$0" "$1" shell true`, NODE, builtMain()], {
      cwd: fresh.folder,
      env: { PATH: process.env.PATH!, HOME: fresh.folder },
    })
    expect(code).toBe(0)
    const modes = await run('find', ['.craik', '-printf', '%m %p\n'], { cwd: fresh.folder, env: {} })
    const open = modes.stdout.split('\n').filter((line) => line !== '' && !/^[67]00 /.test(line))
    // The cache folder may have other modes, because no other user can enter its parent folder.
    expect(open.filter((line) => !line.includes('.craik/cache'))).toEqual([])
    expect(modes.stdout).toContain('700 .craik\n')
  })
})

describe('compiled code', () => {
  it('is stored in the user’s cache and never in the Craik home, from the first file of either thread on', async () => {
    using fresh = new TestHome()
    const env = { ...environmentOf(fresh), NODE_COMPILE_CACHE: '' }
    for (const _turn of [1, 2]) {
      const args = [join(ROOT, 'bin/craik.cjs'), 'shell', 'true']
      expect(await run(NODE, args, { cwd: fresh.folder, env })).toMatchObject({ code: 0 })
    }
    expect(existsSync(join(fresh.home, 'cache'))).toBe(false)
    const cache = fresh.path('.cache/craik/compile')
    const names = readdirSync(cache, { recursive: true, encoding: 'utf8' })
    const stored = names.map((name) => join(cache, name)).filter((path) => statSync(path).isFile())
    for (const file of ['src/main.ts', 'src/writer.ts']) {
      const [firstLine] = readFileSync(join(ROOT, file), 'utf8').split('\n')
      expect(stored.some((path) => readFileSync(path).includes(firstLine!))).toBe(true)
    }
  })
})

describe('a pipe', () => {
  it.each([
    [['receipts', 'list', '--format', 'jsonl', '--limit', '300']],
    [['receipts', 'export']],
    [['receipts', 'list', '--format', 'json', '--limit', '300']],
  ])('whose reader exits early is not an error: %j', async (args) => {
    const child = spawn(NODE, [builtMain(), ...args], {
      env: environmentOf(home),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stderr = ''
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.stdout.once('data', () => child.stdout.destroy())
    const code = await new Promise((done) => child.once('close', done))
    expect([code, stderr]).toEqual([0, ''])
  })

  it('whose reader exits early cancels the command that writes to it, and the receipt records it', async () => {
    using home = new TestHome()
    const script = "sh -c 'echo one; sleep 1; echo two; exec sleep 600'"
    const child = spawn(NODE, [builtMain(), 'shell', '--format', 'table', script], {
      env: environmentOf(home),
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    child.stdout.once('data', () => child.stdout.destroy())
    expect(await new Promise((done) => child.once('close', done))).toBe(0)
    const [end] = await home.json<Receipt[]>(['receipts', 'list', '--limit', '1'])
    expect(end!.body).toMatchObject({ phase: 'end', status: 'failed', shell: { outcome: 'cancelled' } })
  })

  it('that cannot be written gives an error, and the exit code of that error', async () => {
    for (const args of [['receipts', 'list', '--format', 'json'], ['--help'], ['shell', 'echo important']]) {
      const { code, stderr } = await run(
        'sh',
        ['-c', 'exec "$0" "$@" > /dev/full', NODE, builtMain(), ...args],
        {
          env: environmentOf(home),
        },
      )
      expect([args, code]).toEqual([args, ERRORS.disk_full.exit])
      expect(stderr).toContain('the output is incomplete')
    }
  })

  it('that never finishes a write is not a success: a command that stops before its end reports it', async () => {
    const silent = 'data:text/javascript,process.stdout.write=()=>true'
    const { code, stderr } = await run(NODE, ['--import', silent, builtMain(), 'receipts', 'list'], {
      env: environmentOf(home),
    })
    expect(code).toBe(ERRORS.internal.exit)
    expect(stderr).toContain('craik: internal error: the command stopped before it finished')
  })

  it('gets JSON without color or progress', async () => {
    const { stdout, stderr } = await home.run(['receipts', 'list', '--limit', '2'])
    expect(JSON.parse(stdout)).toHaveLength(2)
    expect(stderr).toBe('')
    expect(stdout).not.toContain('\u001b')
  })
})

/** Returns the names of the commands that a help text lists, in its order. */
function parseCommands(help: string): string[] {
  const commands = help.split(/^Examples?:$/m)[0]!
  return [...commands.matchAll(/^ {2}([a-z][a-z-]*) {2,}\S/gm)].map(([, name]) => name!)
}

function file(name: string): string {
  writeFileSync(home.path(name), 'not a folder\n')
  return home.path(name)
}

function folder(name: string, mode: number): string {
  mkdirSync(home.path(name), { recursive: true })
  chmodSync(home.path(name), mode)
  return home.path(name)
}

function link(target: string): string {
  symlinkSync(target, `${target}-link`)
  return `${target}-link`
}
