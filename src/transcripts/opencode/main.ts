/**
 * The process that reads a copy of OpenCode's database and exits. The database is hostile: it can make a simple query
 * run forever or use all memory. So the reader is a separate process with a memory limit, which can be killed. It reads
 * only the three tables, with its own statements, after it has checked that they are ordinary tables without computed
 * columns.
 */
import { once } from 'node:events'
import { constants, DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { type DatabaseLine, ROW_BYTES } from './database-lines.ts'

const HEAP_BYTES = 256 * 1024 * 1024
const TABLES = {
  session: { needed: ['id', 'directory', 'title', 'time_created'], known: ['parent_id', 'revert'] },
  message: { needed: ['id', 'session_id', 'time_created', 'data'], known: [] },
  part: { needed: ['id', 'message_id', 'data'], known: [] },
} as const
type Table = keyof typeof TABLES

/** The reason for a refusal, for the user. */
class Refusal extends Error {}

// The parent process may have exited.
process.stdout.on('error', () => process.exit(0))

void start()

async function start(): Promise<void> {
  try {
    using database = open(process.argv[2]!)
    for await (const line of linesOf(database)) await writeLine(line)
  } catch (error) {
    const code = (error as { readonly errcode?: number }).errcode
    await writeLine({
      refused: error instanceof Refusal ? error.message : `SQLite error ${code ?? 'unknown'}`,
    })
  }
}

async function writeLine(line: DatabaseLine): Promise<void> {
  if (!process.stdout.write(`${JSON.stringify(line)}\n`)) await once(process.stdout, 'drain')
}

function open(path: string): DatabaseSync {
  const database = new DatabaseSync(path, {
    readOnly: true,
    allowExtension: false,
    defensive: true,
    enableForeignKeyConstraints: false,
    enableDoubleQuotedStringLiterals: false,
    timeout: 0,
  })
  for (const setting of [
    'trusted_schema = OFF',
    'cell_size_check = ON',
    'mmap_size = 0',
    `hard_heap_limit = ${HEAP_BYTES}`,
    'temp_store = MEMORY',
    'query_only = ON',
  ])
    database.prepare(`PRAGMA ${setting}`).all()
  return database
}

async function* linesOf(database: DatabaseSync): AsyncGenerator<DatabaseLine> {
  const columns = requireTables(database)
  onlyTheseTables(database)
  const optional = TABLES.session.known.map((name) => (columns.has(name) ? `"${name}"` : `NULL AS "${name}"`))
  const sessions = database.prepare(
    `SELECT id, directory, title, time_created, ${optional.join(', ')} FROM session LIMIT ?`,
  )
  const data = `CASE WHEN octet_length(data) <= ${ROW_BYTES} THEN data END AS data`
  const messages = database.prepare(
    `SELECT id, time_created, ${data} FROM message WHERE session_id = ? ORDER BY time_created, id LIMIT ?`,
  )
  const parts = database.prepare(`SELECT ${data} FROM part WHERE message_id = ? ORDER BY id LIMIT ?`)
  // Without this, a number that is too large would end the read.
  for (const statement of [sessions, messages, parts]) statement.setReadBigInts(true)
  let cut = false
  let count = 0
  for (const session of sessions.iterate(TRANSCRIPT_LIMITS.sessions + 1)) {
    if (++count > TRANSCRIPT_LIMITS.sessions) cut = true
    if (cut) break
    if (typeof session.id !== 'string') continue
    yield { session: plain(session) } as unknown as DatabaseLine
    let reply = 0
    for (const message of messages.iterate(session.id, TRANSCRIPT_LIMITS.turns)) {
      if (++reply >= TRANSCRIPT_LIMITS.turns) cut = true
      if (typeof message.id !== 'string') continue
      yield { message: plain(message) } as unknown as DatabaseLine
      for (const part of parts.iterate(message.id, TRANSCRIPT_LIMITS.partsOfTurn))
        yield { part: plain(part) } as unknown as DatabaseLine
    }
  }
  yield { ended: { cut } }
}

/**
 * Converts a row to JSON. A value that is neither text nor a number becomes an empty text, which counts as damaged
 * wherever it matters.
 */
function plain(row: Record<string, SQLOutputValue>): Record<string, string | number | null> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (typeof value === 'bigint') return [name, Number(value)]
      return [name, value instanceof Uint8Array ? '' : value]
    }),
  )
}

/**
 * Accepts only tables that OpenCode itself creates: no views, no virtual tables, no computed columns. Returns the
 * optional columns of `session`.
 */
function requireTables(database: DatabaseSync): ReadonlySet<string> {
  let ofSession: ReadonlySet<string> = new Set()
  for (const table of Object.keys(TABLES) as Table[]) {
    const kinds = database
      .prepare(`SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE LIMIT 2`)
      .all(table)
    if (kinds.length === 0) throw new Refusal(`it has no table ${table}`)
    if (kinds.length > 1 || kinds[0]!.type !== 'table') throw new Refusal(`${table} is not an ordinary table`)
    const columns = database.prepare(`SELECT name, hidden FROM pragma_table_xinfo(?) LIMIT 500`).all(table)
    const { needed, known } = TABLES[table]
    const plain = new Set(columns.filter(({ hidden }) => hidden === 0).map(({ name }) => String(name)))
    for (const name of needed)
      if (!plain.has(name)) throw new Refusal(`${table} has no ordinary column ${name}`)
    if (table === 'session') ofSession = new Set(known.filter((name) => plain.has(name)))
  }
  return ofSession
}

/** From here on, SQLite itself refuses to read anything else. */
function onlyTheseTables(database: DatabaseSync): void {
  database.setAuthorizer((action, first, second) => {
    if (action === constants.SQLITE_SELECT) return constants.SQLITE_OK
    if (action === constants.SQLITE_READ && Object.hasOwn(TABLES, String(first))) return constants.SQLITE_OK
    if (action === constants.SQLITE_FUNCTION && second === 'octet_length') return constants.SQLITE_OK
    return constants.SQLITE_DENY
  })
}
