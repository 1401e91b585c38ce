/**
 * Craik refuses a damaged, foreign, exposed or newer store with one line and a separate exit code, and does not change
 * it.
 */
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
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
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS, type ErrorCode } from '../../src/errors.ts'
import { homeAt } from '../../src/store/home.ts'
import { type CommandResult, environmentOf, NODE, ROOT, type RunOptions, run, TestHome } from '../craik.ts'
import { copyHome, copyOf, keyOf } from './homes.ts'
import { openLog, point, receiptsOf } from './log.ts'
import { startScript } from './scripts.ts'

const APPENDER = new URL('./appender.ts', import.meta.url)

/** Created once and copied: a log that was closed, and one with a `-wal` file, because its last writer was killed. */
const closed = new TestHome()
const killed = new TestHome()

beforeAll(async () => {
  expect(await closed.run(['shell', 'true'])).toMatchObject({ code: 0 })
  {
    await using opened = await openLog(closed.home)
    await Promise.all(Array.from({ length: 300 }, (_, n) => opened.log.append(point(n))))
  }
  copyHome(closed, killed)
  const script = startScript(APPENDER, [killed.home, 'mixed', '8'], () => {
    if (script.lines.length === 50) script.process.kill('SIGKILL')
  })
  const { signal } = await script.closed
  expect(signal, script.stderr).toBe('SIGKILL')
  expect(statSync(`${homeAt(killed.home).database}-wal`).size).toBeGreaterThan(0)
})

afterAll(() => {
  closed[Symbol.dispose]()
  killed[Symbol.dispose]()
})

const READ = ['receipts', 'list']
const VERIFY = ['receipts', 'verify']
const ACT = ['shell', 'touch marker']

describe('a damaged database', () => {
  const templates = { 'that was closed': closed, 'with a -wal beside it': killed }
  for (const [kind, template] of Object.entries(templates)) {
    it(`${kind}, truncated to half, is refused and not changed`, async () => {
      using home = copyOf(template)
      const { database } = homeAt(home.home)
      const pages = statSync(database).size / 4096
      truncateSync(database, Math.floor(pages / 2) * 4096)
      await expectUntouched(home, 'store_damaged')
    })

    it(`${kind}, truncated in the middle of a page, is refused and not changed`, async () => {
      using home = copyOf(template)
      const { database } = homeAt(home.home)
      truncateSync(database, statSync(database).size - 4096 - 1000)
      await expectUntouched(home, 'store_damaged')
    })

    it(`${kind}, truncated to zero bytes, is refused and not changed`, async () => {
      using home = copyOf(template)
      truncateSync(homeAt(home.home).database, 0)
      await expectUntouched(home, 'store_damaged')
    })

    it(`${kind}, overwritten with garbage, is refused and not changed`, async () => {
      using home = copyOf(template)
      writeFileSync(homeAt(home.home).database, randomBytes(200_000))
      await expectUntouched(home, 'store_damaged')
    })

    it(`${kind}, of a newer version, is refused and not changed`, async () => {
      using home = copyOf(template)
      setVersion(home, 99, template === killed)
      await expectUntouched(home, 'store_newer')
    })
  }

  it('of a few bytes is refused and not changed', async () => {
    using home = copyOf(closed)
    truncateSync(homeAt(home.home).database, 50)
    await expectUntouched(home, 'store_damaged')
  })

  it('whose file is missing beside a -wal is refused, and the -wal is not changed', async () => {
    using home = copyOf(killed)
    rmSync(homeAt(home.home).database)
    await expectUntouched(home, 'store_damaged')
  })

  it('that is a folder is refused', async () => {
    using home = copyOf(closed)
    rmSync(homeAt(home.home).database)
    mkdirSync(homeAt(home.home).database, { mode: 0o700 })
    await expectRefused(home, 'store_damaged', READ)
  })

  it('with garbage in its pages is refused when they are read', async () => {
    using home = copyOf(closed)
    const { database } = homeAt(home.home)
    const content = readFileSync(database)
    for (let at = 4096; at < content.length; at += 4096) randomBytes(2048).copy(content, at)
    writeFileSync(database, content)
    await expectRefused(home, 'store_damaged', READ)
    await expectRefused(home, 'store_damaged', VERIFY)
    await expectRefused(home, 'store_damaged', ACT)
    expect(existsSync(home.path('marker'))).toBe(false)
  })

  it.each([0, 7])(
    'of another program (application id %i) is refused and not changed',
    async (application) => {
      using home = copyOf(closed)
      const { database } = homeAt(home.home)
      rmSync(database)
      {
        using foreign = new DatabaseSync(database)
        foreign.exec(
          `PRAGMA application_id = ${application}; CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')`,
        )
      }
      chmodSync(database, 0o600)
      await expectUntouched(home, 'store_damaged')
    },
  )

  it('that was moved away is reported as missing until its key is moved away too', async () => {
    using home = copyOf(killed)
    const { database, state, secrets } = homeAt(home.home)
    const aside = home.path('aside')
    mkdirSync(aside)
    for (const name of readdirSync(state).filter((name) => name.startsWith('craik.sqlite3')))
      renameSync(join(state, name), join(aside, name))
    for (const args of [
      ['shell', 'touch marker'],
      ['receipts', 'verify'],
    ])
      expect(await home.run(args)).toMatchObject({ code: 1, stdout: '' })
    expect(existsSync(home.path('marker'))).toBe(false)
    for (const name of readdirSync(secrets)) renameSync(join(secrets, name), join(aside, name))
    expect(await home.run(['shell', 'true'])).toMatchObject({ code: 0 })
    expect(statSync(database).mode & 0o777).toBe(0o600)
    expect(receiptsOf(home.home)).toHaveLength(2)
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 0 })
  })
})

describe('a log key', () => {
  it('that holds garbage stops every action', async () => {
    using home = copyOf(closed)
    writeFileSync(keyOf(home), randomBytes(300))
    await expectSameLog(home, 'key_unreadable', [VERIFY, ACT])
  })

  it('that is empty stops every action', async () => {
    using home = copyOf(closed)
    writeFileSync(keyOf(home), '')
    await expectSameLog(home, 'key_unreadable')
  })

  it('that is missing is not replaced while the log has receipts', async () => {
    using home = copyOf(closed)
    rmSync(keyOf(home))
    await expectSameLog(home, 'key_unreadable', [VERIFY, ACT])
    expect(existsSync(keyOf(home))).toBe(false)
  })

  it('that is a folder stops every action', async () => {
    using home = copyOf(closed)
    rmSync(keyOf(home))
    mkdirSync(keyOf(home), { mode: 0o700 })
    await expectSameLog(home, 'key_exposed')
  })

  it('that other users can read stops every action', async () => {
    using home = copyOf(closed)
    chmodSync(keyOf(home), 0o644)
    await expectSameLog(home, 'key_exposed')
  })

  it('behind a symbolic link stops every action', async () => {
    using home = copyOf(closed)
    renameSync(keyOf(home), home.path('elsewhere.key'))
    symlinkSync(home.path('elsewhere.key'), keyOf(home))
    await expectSameLog(home, 'key_exposed')
  })

  it('of another log stops every action', async () => {
    using home = copyOf(closed)
    using other = new TestHome()
    expect(await other.run(['shell', 'true'])).toMatchObject({ code: 0 })
    copyFileSync(keyOf(other), keyOf(home))
    await expectSameLog(home, 'key_mismatch')
  })

  it('with the right name and the secret of another key stops every action', async () => {
    using home = copyOf(closed)
    const key = JSON.parse(readFileSync(keyOf(home), 'utf8')) as Record<string, string>
    writeFileSync(keyOf(home), JSON.stringify({ ...key, mac_root: randomBytes(32).toString('base64') }))
    await expectSameLog(home, 'key_mismatch')
  })
})

describe('a home that other users can access', () => {
  it('is refused', async () => {
    using home = copyOf(closed)
    chmodSync(home.home, 0o755)
    await expectSameLog(home, 'key_exposed', [READ, ACT])
  })

  it('is refused when only the state folder is accessible', async () => {
    using home = copyOf(closed)
    chmodSync(homeAt(home.home).state, 0o750)
    await expectSameLog(home, 'key_exposed', [READ, ACT])
  })

  it('is refused when the database is accessible', async () => {
    using home = copyOf(closed)
    chmodSync(homeAt(home.home).database, 0o644)
    await expectSameLog(home, 'key_exposed', [READ, ACT])
  })

  it('is refused when the secrets folder is a link', async () => {
    using home = copyOf(closed)
    renameSync(homeAt(home.home).secrets, home.path('elsewhere'))
    symlinkSync(home.path('elsewhere'), homeAt(home.home).secrets)
    await expectSameLog(home, 'key_exposed')
  })

  it('runs no code that other users could have put into the user’s cache', async () => {
    using home = copyOf(closed)
    const cache = home.path('.cache/craik')
    // The tests have a compile cache of their own, which would be used otherwise.
    const options = { env: { NODE_COMPILE_CACHE: '' } }
    const doors = [(args: readonly string[]) => home.run(args, options), craik]
    for (const door of doors) {
      expect(await door(READ)).toMatchObject({ code: 0 })
      expect(readdirSync(cache)).toEqual(['compile'])
      rmSync(cache, { recursive: true })
      for (const [folder, mode] of [
        [cache, 0o777],
        [home.path('.cache'), 0o777],
      ] as const) {
        mkdirSync(folder, { recursive: true })
        chmodSync(folder, mode)
        expect(await door(READ)).toMatchObject({ code: 0 })
        expect(existsSync(join(cache, 'compile'))).toBe(false)
        rmSync(folder, { recursive: true })
      }
      mkdirSync(home.path('.cache'), { mode: 0o700 })
      symlinkSync(home.path('elsewhere'), cache)
      mkdirSync(home.path('elsewhere'), { mode: 0o700 })
      expect(await door(READ)).toMatchObject({ code: 0 })
      expect(readdirSync(home.path('elsewhere'))).toEqual([])
      rmSync(home.path('elsewhere'), { recursive: true })
      rmSync(home.path('.cache'), { recursive: true })
    }

    /** Starts Craik through `bin/craik.cjs`, as users do. */
    function craik(args: readonly string[]): Promise<CommandResult> {
      const env = { ...environmentOf(home), ...options.env }
      return run(NODE, [join(ROOT, 'bin/craik.cjs'), ...args], { cwd: home.folder, env })
    }
  })
})

describe('a clock that goes backwards', () => {
  it('by an hour stops every action', async () => {
    using home = copyOf(closed)
    await expectSameLog(home, 'clock_backwards', [ACT], clockShiftedBy(-3_600_000))
  })

  it('by two seconds is accepted, and the times of receipts never decrease', async () => {
    using home = new TestHome()
    expect(await home.run(['shell', 'true'])).toMatchObject({ code: 0 })
    expect(await home.run(['shell', 'true'], clockShiftedBy(-2_000))).toMatchObject({ code: 0, stderr: '' })
    const times = readReceipts(home).map(({ at_ms }) => at_ms as number)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 0 })
  })
})

/** Preloaded in the main thread. The writer thread inherits it. */
function clockShiftedBy(milliseconds: number): RunOptions {
  const source = `const now = Date.now; Date.now = () => now() + (${milliseconds})`
  return { nodeArguments: ['--import', `data:text/javascript,${encodeURIComponent(source)}`] }
}

/** With `pending`, only the `-wal` holds the new version, as after a crash of the newer program. */
function setVersion(home: TestHome, version: number, pending: boolean): void {
  const { database } = homeAt(home.home)
  const other = new DatabaseSync(database)
  other.exec(`PRAGMA user_version = ${version}`)
  const files = ['', '-wal', '-shm'].map((suffix) => database + suffix)
  if (pending) for (const file of files) copyFileSync(file, `${file}.copy`)
  other.close()
  if (pending) for (const file of files) renameSync(`${file}.copy`, file)
  expect(existsSync(`${database}-wal`)).toBe(pending)
}

/** Expects that the command prints one line and a hint, no output, and has no effect. */
async function expectRefused(
  home: TestHome,
  code: ErrorCode,
  command: readonly string[],
  options?: RunOptions,
): Promise<void> {
  const ran = await home.run(command, options)
  expect(ran, command.join(' ')).toMatchObject({ code: ERRORS[code].exit, stdout: '' })
  expect(ran.stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
  expect(ran.stderr).not.toMatch(/the the|undefined|\[object/)
  expect(existsSync(home.path('marker'))).toBe(false)
}

/** Expects that reading and acting are both refused, and that every byte of the store and the keys stays the same. */
async function expectUntouched(home: TestHome, code: ErrorCode): Promise<void> {
  const before = bytesOf(home)
  for (const command of [READ, ACT]) {
    await expectRefused(home, code, command)
    expect(bytesOf(home)).toEqual(before)
  }
}

/** Expects that the commands are refused and the log stays the same. */
async function expectSameLog(
  home: TestHome,
  code: ErrorCode,
  commands: readonly (readonly string[])[] = [ACT],
  options?: RunOptions,
): Promise<void> {
  const before = readReceipts(home)
  for (const command of commands) await expectRefused(home, code, command, options)
  expect(readReceipts(home)).toEqual(before)
}

function readReceipts(home: TestHome): readonly Record<string, unknown>[] {
  using database = new DatabaseSync(homeAt(home.home).database, { readOnly: true })
  return database.prepare('SELECT * FROM receipts ORDER BY seq').all()
}

/** Leaves out the shared-memory index: SQLite rebuilds it at any time, and it holds no data of its own. */
function bytesOf(home: TestHome): Record<string, string> {
  const { state, secrets } = homeAt(home.home)
  const files = [state, secrets].flatMap((folder) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('-shm'))
      .map((entry) => join(folder, entry.name)),
  )
  return Object.fromEntries(files.map((file) => [file, readFileSync(file).toString('base64')]))
}
