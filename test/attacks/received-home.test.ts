/**
 * An attacker sends a Craik home and asks the user to verify it. The user who unpacks it owns every file in it, so no
 * check of owner or mode distinguishes it from the user's own home. Commands that read receipts must execute nothing
 * from it. strace shows what they execute.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { readHarness } from '../../src/harnesses/packages/harness-catalogue.ts'
import { builtFolder } from '../built-craik.ts'
import { type CommandResult, environmentOf, NODE, run, TestHome } from '../craik.ts'

const READING: readonly (readonly string[])[] = [
  ['receipts', 'verify'],
  ['receipts', 'verify', '--replay'],
  ['receipts', 'list', '--format', 'jsonl'],
  ['receipts', 'show', '0'],
  ['receipts', 'export'],
  ['receipts', 'key'],
]

/** The data of a log and the folders that contain it, without code, configuration and packages. */
const DATA =
  /^(?:|state|secrets|state\/(?:craik\.sqlite3(?:-wal|-shm|-journal)?|shell-output(?:\/.*)?)|secrets\/log(?:-[\w-]+)?\.key(?:\.next)?)$/

let received: TestHome
/** The main file of a copy of the package. The attacker knows the version and the path of the victim's installation. */
let main: string
let program: string

beforeAll(async () => {
  received = new TestHome()
  cpSync(builtFolder(), received.path('craik'), { recursive: true })
  main = received.path('craik/src/main.cjs')
  program = received.path('craik/bin/craik.cjs')
  expect(await craik(['shell', 'echo hello'])).toMatchObject({ code: 0 })
  // Everything that is compiled after this belongs to the attacker.
  rmSync(received.path('.cache'), { recursive: true, force: true })
  poisonCompileCache(join(received.home, 'cache'))
  poisonPackages(join(received.home, 'cache'))
  poisonConfiguration(join(received.home, 'config'))
})
afterAll(() => received?.[Symbol.dispose]())

const marker = () => received.path('ran')

function craik(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandResult> {
  return run(NODE, [main, ...args], {
    cwd: received.folder,
    env: { ...environmentOf(received), NODE_COMPILE_CACHE: '', MARKER: marker(), ...env },
  })
}

/**
 * Node compiles another program of the same length. Then the function changes the cache entry so that it claims to be
 * for the real program.
 */
function poisonCompileCache(folder: string): void {
  const original = readFileSync(main, 'utf8')
  const evil = withProgram(original)
  writeFileSync(main, evil)
  execFileSync(NODE, [program, '--version'], {
    env: { ...environmentOf(received), NODE_COMPILE_CACHE: folder, MARKER: marker() },
  })
  expect(existsSync(marker())).toBe(true)
  rmSync(marker())
  writeFileSync(main, original)
  expect(forgeCacheKey(folder, crc32(evil), crc32(original))).toBe(1)
  execFileSync('chmod', ['-R', 'go=', folder])
}

/** Replaces a comment, because the length must stay the same. */
function withProgram(source: string): string {
  const code = "process.getBuiltinModule('fs').writeFileSync(process.env.MARKER,'');"
  const comment = [...source.matchAll(/^(?:\/\/ .*|\/\*\*[\s\S]*?\*\/)$/gm)].find(
    ([text]) => /^[\x20-\x7e\n]+$/.test(text) && text.length >= code.length,
  )
  if (comment === undefined) throw new Error('no comment is long enough')
  return source.replace(comment[0], () => code.padEnd(comment[0].length, ' '))
}

function forgeCacheKey(folder: string, evil: number, original: number): number {
  let patched = 0
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const content = readFileSync(path)
    const from = Buffer.alloc(4)
    from.writeUInt32LE(evil)
    const at = content.subarray(0, 64).indexOf(from)
    if (at === -1) continue
    content.writeUInt32LE(original, at)
    writeFileSync(path, content)
    patched++
  }
  return patched
}

/** Writes programs that leave a trace to all paths in a home where Craik could search for a program. */
function poisonPackages(folder: string): void {
  const script = `#!/bin/sh\ntouch ${marker()}\n`
  const { id } = readHarness('kimi')
  for (const path of [`harnesses/${id}/bin/kimi`, `harnesses/${id}/harness-manifest.json`]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), script, { mode: 0o755 })
  }
}

function poisonConfiguration(folder: string): void {
  mkdirSync(join(folder, 'providers'), { recursive: true, mode: 0o700 })
  mkdirSync(join(folder, 'policies'), { mode: 0o700 })
  for (const name of [
    'limits.yaml',
    'accounts.yaml',
    'failover.yaml',
    'providers/x.yaml',
    'policies/custom.cedar',
  ])
    writeFileSync(join(folder, name), `command: [touch, ${marker()}]\n`, { mode: 0o600 })
}

interface Traced {
  readonly code: number
  readonly output: string
  readonly executed: readonly string[]
  /** Paths below the home that were opened, relative to it. */
  readonly opened: readonly string[]
}

function traceProgram(file: string, args: readonly string[]): Traced {
  const trace = received.path('trace')
  rmSync(trace, { force: true })
  let code = 0
  let output = ''
  try {
    output = execFileSync(
      'strace',
      [
        '-f',
        '-s',
        '4096',
        '-e',
        'trace=execve,execveat,open,openat,openat2',
        '-o',
        trace,
        NODE,
        file,
        ...args,
      ],
      {
        cwd: received.folder,
        encoding: 'utf8',
        env: { ...environmentOf(received), NODE_COMPILE_CACHE: '', MARKER: marker() },
      },
    )
  } catch (error) {
    const failed = error as { readonly status: number; readonly stdout: string; readonly stderr: string }
    code = failed.status
    output = failed.stdout + failed.stderr
  }
  const lines = readFileSync(trace, 'utf8').split('\n')
  const paths = lines
    .filter((line) => / open(?:at2?)?\(/.test(line))
    .map((line) => /"([^"]*)"/.exec(line)?.[1] ?? '')
  const below = paths.filter((path) => `${path}/`.startsWith(`${received.home}/`))
  return {
    code,
    output,
    executed: lines.filter((line) => / execve(?:at)?\(/.test(line)),
    opened: [...new Set(below.map((path) => path.slice(received.home.length + 1)))],
  }
}

describe('a received home', () => {
  it('contains compiled code that Node runs when its cache is set to that folder', async () => {
    const poisoned = { NODE_COMPILE_CACHE: join(received.home, 'cache') }
    expect(await craik(['--version'], poisoned)).toMatchObject({ code: 0 })
    expect(existsSync(marker())).toBe(true)
    rmSync(marker())
  })

  it.each(READING.map((args) => [args.join(' '), args] as const))(
    'is read without executing anything from it: craik %s',
    (_, args) => {
      for (const file of [program, main]) {
        const { code, output, executed, opened } = traceProgram(file, args)
        expect([code, existsSync(marker())], output).toEqual([0, false])
        // strace's start of Node, and no other program.
        expect(executed).toHaveLength(1)
        expect(opened).toContain('state/craik.sqlite3')
        expect(opened.filter((path) => !DATA.test(path))).toEqual([])
      }
    },
  )

  it('is verified without any compile cache, not even the user’s own', () => {
    for (const file of [program, main]) {
      rmSync(received.path('.cache'), { recursive: true, force: true })
      expect(traceProgram(file, ['receipts', 'verify']).code).toBe(0)
      expect(existsSync(received.path('.cache'))).toBe(false)
    }
  })

  it('does not decide where the user’s own compile cache is', async () => {
    expect(await craik(['receipts', 'list', '--format', 'jsonl'])).toMatchObject({ code: 0 })
    expect(readdirSync(received.path('.cache/craik'))).toEqual(['compile'])
  })

  it('provides no runtime for a sandbox that runs directly on the host', async () => {
    rmSync(join(received.home, 'config'), { recursive: true })
    const create = () => craik(['sandbox', 'create', '--isolation', 'none', '--name', 'here'])
    const end = async () => {
      await craik(['sandbox', 'delete', '--all', '--yes'])
      await craik(['supervisor', 'stop'])
    }
    try {
      expect(await create()).toMatchObject({ code: 0 })
      await end()
      const [runtime] = readdirSync(received.folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
        /\/runtime\/[0-9a-f]{32}\/sidecar\.mjs$/.test(name),
      )
      const real = received.path(dirname(runtime!))
      const planted = join(received.home, 'cache/runtime', basename(real))
      if (real !== planted) cpSync(real, planted, { recursive: true })
      // Craik compares only the length and the mode of this file, because reading all of it takes long.
      const { size } = statSync(join(planted, 'node'))
      rmSync(join(planted, 'node'))
      writeFileSync(join(planted, 'node'), `#!/bin/sh\ntouch ${marker()}\nexit 1\n`)
      truncateSync(join(planted, 'node'), size)
      chmodSync(join(planted, 'node'), 0o111)
      rmSync(received.path('.cache'), { recursive: true, force: true })
      expect([(await create()).code, existsSync(marker())]).toEqual([0, false])
      expect(await craik(['sandbox', 'exec', 'here', '--', 'true'])).toMatchObject({ code: 0 })
    } finally {
      await end()
    }
  })
})

describe('a received database', () => {
  it.each([
    [
      'a trigger that changes what was read',
      'CREATE TRIGGER t AFTER INSERT ON schema_versions BEGIN DELETE FROM receipts; END',
    ],
    ['a view that loads an extension', "CREATE VIEW v AS SELECT load_extension('/tmp/x.so')"],
    [
      'a view in the place of a table',
      "ALTER TABLE checkpoints RENAME TO hidden; CREATE VIEW checkpoints AS SELECT *, load_extension('/tmp/x.so') FROM hidden",
    ],
  ])('runs nothing: %s', (_, sql) => {
    const database = join(received.home, 'state/craik.sqlite3')
    for (const suffix of ['-wal', '-shm']) rmSync(database + suffix, { force: true })
    copyFileSync(database, received.path('database'))
    try {
      const hostile = new DatabaseSync(database)
      hostile.exec(sql)
      hostile.close()
      chmodSync(database, 0o600)
      const { code, executed, opened } = traceProgram(main, ['receipts', 'verify'])
      expect(
        Object.values(ERRORS)
          .map(({ exit }) => exit as number)
          .concat(0),
      ).toContain(code)
      expect(executed).toHaveLength(1)
      expect(opened.filter((path) => !DATA.test(path))).toEqual([])
      expect(existsSync(marker())).toBe(false)
    } finally {
      for (const suffix of ['-wal', '-shm']) rmSync(database + suffix, { force: true })
      copyFileSync(received.path('database'), database)
    }
  })
})

describe('a received home with traps', () => {
  let good: TestHome
  let bad: TestHome
  beforeAll(async () => {
    good = new TestHome()
    expect(await good.run(['shell', 'true'])).toMatchObject({ code: 0 })
  })
  afterAll(() => good?.[Symbol.dispose]())
  beforeEach(() => {
    bad = new TestHome()
    execFileSync('cp', ['-a', good.home, bad.home])
  })
  afterEach(async () => {
    await bad.run(['supervisor', 'stop'])
    bad[Symbol.dispose]()
  })
  const inBad = (path: string) => join(bad.home, path)

  /** A command that does not exit by itself is killed, because SQLite reacts to no other signal during a query. */
  const ends = (args: readonly string[]) => bad.run(args, { timeoutMs: 60_000 })

  it('is refused with a message when receipts are an endless view', async () => {
    {
      using hostile = new DatabaseSync(inBad('state/craik.sqlite3'))
      const columns = hostile.prepare('PRAGMA table_info(receipts)').all()
      const select = columns.map(({ name }) => (name === 'seq' ? 'c.n AS seq' : `r.${name}`))
      hostile.exec(`CREATE TABLE spare AS SELECT * FROM receipts; DROP TRIGGER receipts_never_leave;
        DROP TABLE receipts; CREATE VIEW receipts AS
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT ${select} FROM c, spare AS r`)
    }
    for (const args of [['receipts', 'verify'], ['receipts', 'list'], ['doctor'], ['sandbox', 'list']]) {
      const { code, stdout, stderr } = await ends(args)
      expect([args, code === null, code === 0], stderr).toEqual([args, false, false])
      expect(stdout + stderr).toContain('is not a Craik database: it has a ')
    }
  })

  it.each(['-journal', '-wal', '-shm'])('is refused when %s of its database is a pipe', async (suffix) => {
    rmSync(inBad(`state/craik.sqlite3${suffix}`), { force: true })
    execFileSync('mkfifo', ['-m', '600', inBad(`state/craik.sqlite3${suffix}`)])
    const { code, stderr } = await bad.run(['receipts', 'verify'], { timeoutMs: 20_000 })
    expect(stderr).toContain(`state/craik.sqlite3${suffix} is not a file`)
    expect(code).toBe(ERRORS.store_damaged.exit)
  })

  it('is refused when its database is a link to one with a pipe as journal', async () => {
    const database = inBad('state/craik.sqlite3')
    for (const suffix of ['-wal', '-shm']) rmSync(database + suffix, { force: true })
    renameSync(database, inBad('state/other'))
    symlinkSync('other', database)
    execFileSync('mkfifo', ['-m', '600', inBad('state/other-journal')])
    const { code, stderr } = await bad.run(['receipts', 'verify'], { timeoutMs: 20_000 })
    expect(stderr).toContain('state/craik.sqlite3-journal is not a file')
    expect(code).toBe(ERRORS.store_damaged.exit)
  })

  it.each([
    ['a pipe', () => execFileSync('mkfifo', ['-m', '600', inBad('state/lent-folders.json')])],
    ['a link to /dev/zero', () => symlinkSync('/dev/zero', inBad('state/lent-folders.json'))],
  ])('is refused when its list of writable folders is %s', async (_, make) => {
    make()
    // Only commands that execute a program on the host read the list.
    for (const args of [['sandbox', 'list'], ['doctor']]) expect((await ends(args)).code).not.toBeNull()
    const { code, stderr } = await ends(['accounts'])
    expect(stderr).toContain('home/state/lent-folders.json, the list of folders that sandboxes could write')
    expect(code).toBe(ERRORS.invalid_config.exit)
  })

  it.each(['', '-journal', '-wal'])('is refused when supervisor.lock%s is a pipe', async (suffix) => {
    mkdirSync(inBad('run'), { recursive: true, mode: 0o700 })
    execFileSync('mkfifo', ['-m', '600', inBad(`run/supervisor.lock${suffix}`)])
    const { code, stderr } = await bad.run(['sandbox', 'create'], { timeoutMs: 60_000 })
    expect(stderr).toContain(`lock${suffix} is not a file`)
    expect(code).not.toBe(0)
  })

  it.each([
    ['a pipe', () => execFileSync('mkfifo', ['-m', '600', inBad('state/supervisor.log')])],
    ['a link', () => symlinkSync(bad.path('mine'), inBad('state/supervisor.log'))],
  ])('is refused when the supervisor’s log is %s', async (_, make) => {
    make()
    const { code, stderr } = await ends(['sandbox', 'list'])
    expect(stderr).toContain('supervisor.log is not a regular file')
    expect([code, existsSync(bad.path('mine'))]).toEqual([ERRORS.home_unwritable.exit, false])
  })

  it.each(['volumes', 'snapshots', 'sandboxes'])(
    'does not make Craik remove files where its link %s leads',
    async (name) => {
      const mine = [
        '.gone-x',
        '.partial-x',
        'snap_00000000000000000000000000',
        'sbx_00000000000000000000000000',
      ]
      for (const one of mine) mkdirSync(bad.path('mine', one), { recursive: true, mode: 0o700 })
      rmSync(inBad(name), { recursive: true, force: true })
      symlinkSync(bad.path('mine'), inBad(name))
      expect((await ends(['sandbox', 'list'])).code).toBe(0)
      await ends(['supervisor', 'stop'])
      expect(readdirSync(bad.path('mine')).sort()).toEqual(mine.sort())
    },
  )
})
