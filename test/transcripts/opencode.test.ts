/**
 * OpenCode's database. A subprocess reads it from a copy, with its write-ahead log. No database can block that
 * subprocess or make it run anything.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { turnText } from '../../src/transcripts/conversation.ts'
import { findConversations } from '../../src/transcripts/find-transcripts.ts'
import { homeFolder } from '../../src/transcripts/home-folder.ts'
import { ROW_BYTES } from '../../src/transcripts/opencode/database-lines.ts'
import { readDatabase } from '../../src/transcripts/opencode/subprocess.ts'
import {
  addOpencodeSession,
  all,
  FOLDER,
  memoryHome,
  openOpencodeDatabase,
  PATHS,
  type TranscriptExchange,
  TWO,
} from '../../src/transcripts/transcripts.fixture.ts'
import { tempFolder } from '../temp-folder.ts'

const signal = new AbortController().signal

class Home {
  readonly folder = tempFolder('craik-opencode-')
  readonly path = join(this.folder, PATHS.opencode)

  constructor() {
    mkdirSync(dirname(this.path), { recursive: true })
  }

  async read(source = homeFolder(this.folder, { signal })) {
    const problems: string[] = []
    const found = await all(
      findConversations({
        source,
        signal,
        redact: (text: string) => text,
        harnesses: ['opencode'],
        onProblem: (_, problem) => problems.push(problem),
      }),
    )
    return { found, problems, said: found.map(({ turns }) => turns.map(turnText)) }
  }
}

/** Writes these conversations and closes the database, so that one file contains everything. */
function writeDatabase(home: Home, fill: (database: DatabaseSync) => void): void {
  using database = openOpencodeDatabase(home.path)
  fill(database)
}

const SAID = [
  'why does the parser test fail?',
  'I will run it.\n\nThe lexer drops a trailing comment.',
  'then mend it',
  'It is mended.',
]

describe('a database', () => {
  it('that a program has open is read with the content of its write-ahead log, and is not touched', async () => {
    const home = new Home()
    using database = openOpencodeDatabase(home.path)
    addOpencodeSession(database, TWO)
    const before = readdirSync(dirname(home.path)).map((name) => [
      name,
      statSync(join(dirname(home.path), name)).mtimeMs,
    ])
    // Uses a folder of its own, because other tests read databases at the same time.
    const copies = tempFolder('craik-copies-')
    vi.stubEnv('TMPDIR', copies)
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(tmpdir()).toBe(copies)
    const { found, said: output, problems } = await home.read()
    expect([output, problems]).toEqual([[SAID], []])
    expect(found[0]).toMatchObject({ id: 'ses_7c9e6679', cwd: FOLDER, model: 'model-1', title: 'the parser' })
    expect(found[0]!.turns[1]!.parts.map(({ type }) => type)).toEqual(['thinking', 'text', 'tool', 'text'])
    expect(found[0]!.turns[1]!.parts[2]).toMatchObject({ name: 'bash', output: 'one test failed', ok: true })
    expect(found[0]!.usage).toEqual({ inputTokens: 33, outputTokens: 21 })
    const after = readdirSync(dirname(home.path)).map((name) => [
      name,
      statSync(join(dirname(home.path), name)).mtimeMs,
    ])
    expect(after).toEqual(before)
    expect(readdirSync(copies)).toEqual([])
  })

  it('gives one conversation for each session of the user, without reverted messages', async () => {
    const home = new Home()
    writeDatabase(home, (database) => {
      addOpencodeSession(database, TWO)
      addOpencodeSession(database, [TWO[1]!], { id: 'ses_child', parent: 'ses_7c9e6679' })
      addOpencodeSession(database, TWO, { id: 'ses_back', revert: '{"messageID":"ses_back-000009"}' })
    })
    expect((await home.read()).said).toEqual([SAID, SAID.slice(0, 2)])
  })

  it('of ten thousand turns is read completely', async () => {
    const home = new Home()
    const many: TranscriptExchange[] = Array.from({ length: 5000 }, (_, i) => ({
      prompt: `ask ${i}`,
      answer: `say ${i}`,
    }))
    writeDatabase(home, (database) => {
      database.exec('BEGIN')
      addOpencodeSession(database, many)
      database.exec('COMMIT')
    })
    expect((await home.read()).found[0]!.turns).toHaveLength(10_000)
  })

  it('with damaged or oversized rows is read without those rows', async () => {
    const home = new Home()
    writeDatabase(home, (database) => {
      addOpencodeSession(database, TWO)
      const rows = database.prepare('SELECT id FROM message ORDER BY id').all()
      const set = (id: unknown, data: string | Uint8Array) =>
        database.prepare('UPDATE message SET data = ? WHERE id = ?').run(data, String(id))
      set(rows[3]!.id, '{"role":')
      set(rows[4]!.id, `{"role":"assistant","x":"${'x'.repeat(ROW_BYTES)}"}`)
      database.prepare(`UPDATE part SET data = ? WHERE data LIKE '%reasoning%'`).run(randomBytes(40))
    })
    const { found, said: output } = await home.read()
    expect(output).toEqual([SAID.slice(0, 2)])
    expect(found[0]!.damage).toMatchObject({ damaged: 2, oversized: 1 })
  })

  it('that is truncated or overwritten anywhere never causes an exception', async () => {
    const home = new Home()
    writeDatabase(home, (database) => addOpencodeSession(database, TWO))
    const whole = readFileSync(home.path)
    await fc.assert(
      fc.asyncProperty(
        fc.nat(whole.length - 1),
        fc.uint8Array({ minLength: 1, maxLength: 64 }),
        fc.boolean(),
        async (at, bytes, isCut) => {
          const damaged = Buffer.from(isCut ? whole.subarray(0, at) : whole)
          if (!isCut) damaged.set(bytes.subarray(0, whole.length - at), at)
          const { found, problems } = await home.read(memoryHome({ [PATHS.opencode]: damaged }))
          expect(found.length + problems.length).toBeLessThanOrEqual(3)
        },
      ),
      { numRuns: 15 },
    )
  })
})

describe('a hostile database', () => {
  const data = `'{"role":"user"}'`
  it.each([
    [
      'a view in the place of a table',
      `ALTER TABLE message RENAME TO m; CREATE VIEW message AS SELECT * FROM m`,
    ],
    [
      'a view that counts for ever',
      `DROP TABLE message; CREATE VIEW message AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
       SELECT n AS id, 'ses_7c9e6679' AS session_id, 0 AS time_created, ${data} AS data FROM c`,
    ],
    ['a virtual table', `DROP TABLE part; CREATE VIRTUAL TABLE part USING fts5(id, message_id, data)`],
    [
      'a column that is computed',
      `DROP TABLE message; CREATE TABLE message (id text, session_id text, time_created integer,
       data text AS (hex(zeroblob(400000000))))`,
    ],
    ['no table', 'DROP TABLE part'],
    ['no column', 'DROP TABLE part; CREATE TABLE part (id text, message_id text)'],
  ])('with %s is refused with a reason', async (_, change) => {
    const home = new Home()
    writeDatabase(home, (database) => {
      addOpencodeSession(database, TWO)
      database.exec(`PRAGMA foreign_keys = OFF; ${change}`)
    })
    const { found, problems } = await home.read()
    expect(found).toEqual([])
    expect(problems).toEqual([
      expect.stringMatching(/^is not a readable database: \w+ (is not an ordinary|has no|table)|it has no/),
    ])
  })

  it.each([
    ['nothing', ''],
    ['text', 'this is no database at all '.repeat(100)],
    ['a head without a body', 'SQLite format 3\0'],
  ])('that consists of %s is refused', async (_, content) => {
    const { found, problems } = await new Home().read(memoryHome({ [PATHS.opencode]: content }))
    expect([found, problems.length]).toEqual([[], 1])
  })

  it('has triggers that never fire', async () => {
    const home = new Home()
    writeDatabase(home, (database) => {
      addOpencodeSession(database, TWO)
      database.exec(`CREATE TRIGGER t AFTER INSERT ON message BEGIN SELECT hex(zeroblob(400000000)); END`)
    })
    expect((await home.read()).said).toEqual([SAID])
  })

  it('is not read beyond its time limit, and leaves no process', async () => {
    const home = new Home()
    writeDatabase(home, (database) => addOpencodeSession(database, TWO))
    expect(await all(readDatabase(home.path, signal, 1))).toEqual([{ refused: 'reading it timed out' }])
    const over = new AbortController()
    const reading = readDatabase(home.path, over.signal)
    await reading.next()
    over.abort(new Error('enough'))
    await expect(all(reading)).rejects.toThrow('enough')
  })

  it('whose pages repeat so often that a table of one row has no end is given up in time', async () => {
    const home = new Home()
    writeDatabase(home, (database) => {
      addOpencodeSession(database, [], { id: 'ses_asked_for' })
      addOpencodeSession(database, [TWO[1]!])
      database.exec('DROP INDEX message_session_time_created_id_idx')
    })
    const before = await all(readDatabase(home.path, signal, 60_000))
    expect(before.at(-1)).toEqual({ ended: { cut: false } })
    makeEndless(home.path, 'message')
    const lines = await all(readDatabase(home.path, signal, 3000))
    expect(lines[0]).toMatchObject({ session: { id: 'ses_asked_for' } })
    expect(lines.slice(1)).toEqual([{ refused: 'reading it timed out' }])
  })

  it('whose write-ahead log is invalid or empty is still read', async () => {
    const home = new Home()
    writeDatabase(home, (database) => addOpencodeSession(database, TWO))
    const files = { [PATHS.opencode]: readFileSync(home.path), [`${PATHS.opencode}-wal`]: randomBytes(5000) }
    expect((await home.read(memoryHome(files))).said).toEqual([SAID])
    writeFileSync(`${home.path}-wal`, '')
    expect((await home.read()).said).toEqual([SAID])
  })
})

/** Replaces the only page of a table with six pages, each of which names the next one three hundred times. */
function makeEndless(path: string, table: string): void {
  const CHILDREN = 300
  const LEVELS = 6
  let root = 0
  {
    using database = new DatabaseSync(path)
    database.exec('PRAGMA journal_mode = DELETE')
    root = Number(database.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table)!.rootpage)
  }
  const file = readFileSync(path)
  const pageBytes = file.readUInt16BE(16)
  const pages = file.length / pageBytes
  const leaf = Buffer.from(file.subarray((root - 1) * pageBytes, root * pageBytes))
  const leadingTo = (child: number) => {
    const page = Buffer.alloc(pageBytes)
    page.writeUInt8(5, 0)
    page.writeUInt16BE(CHILDREN, 3)
    page.writeUInt16BE(pageBytes - 5 * CHILDREN, 5)
    page.writeUInt32BE(child, 8)
    for (let i = 0; i < CHILDREN; i++) {
      const at = pageBytes - 5 * (i + 1)
      page.writeUInt16BE(at, 12 + 2 * i)
      page.writeUInt32BE(child, at)
      page.writeUInt8(1, at + 4)
    }
    return page
  }
  leadingTo(pages + 1).copy(file, (root - 1) * pageBytes)
  const more = Array.from({ length: LEVELS - 1 }, (_, i) => leadingTo(pages + i + 2))
  file.writeUInt32BE(pages + LEVELS, 28)
  writeFileSync(path, Buffer.concat([file, ...more, leaf]))
}
