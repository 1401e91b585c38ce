/**
 * Refuses a database whose schema is not Craik's. SQLite reads with the schema of the file: a view in the place of a table
 * can compute rows without end, and nothing interrupts a query of this process.
 */
import { DatabaseSync } from 'node:sqlite'
import { CraikError } from '../../errors.ts'
import { memoize } from '../../lib/memoize.ts'
import { MIGRATIONS, VERSIONS_TABLE } from '../migrations.ts'

/** Longer than any of ours, so that a longer one differs and is not read whole. */
const MAX_NAME = 100
const MAX_HEAD = 400

interface SchemaObject {
  readonly type: string
  readonly name: string
  readonly sql: string | null
}

/**
 * Each object has the type, name and table of one that the migrations up to `version` make; some may be missing. Columns and
 * bodies may differ, so that homes of earlier builds open, but only our columns may be computed.
 */
export function requireOwnSchema(database: DatabaseSync, version: number): void {
  const own = ownSchemaAt(String(version))
  for (const found of objectsIn(database)) {
    const head = own.heads.get(keyOf(found))
    if (head === undefined) throw foreign(`it has ${article(kindOf(found))} named ${quote(found.name)}`)
    if (head !== headOf(found)) throw foreign(`its ${kindOf(found)} ${quote(found.name)} is not Craik’s`)
  }
  for (const found of findGeneratedColumns(database))
    if (!own.computed.has(found)) throw foreign(`it computes the column ${quote(found)}`)
}

interface OwnSchema {
  readonly heads: ReadonlyMap<string, string>
  readonly computed: ReadonlySet<string>
}

/** Every opening asks twice, and making it takes 2 ms. */
const ownSchemaAt = memoize((version) => makeOwnSchema(Number(version)), MIGRATIONS.length)

/** By making it: only SQLite can tell what a step of the migrations makes. */
function makeOwnSchema(version: number): OwnSchema {
  using database = new DatabaseSync(':memory:')
  database.exec(VERSIONS_TABLE)
  for (const step of MIGRATIONS) if (step.version <= version) database.exec(step.sql)
  const heads = new Map([...objectsIn(database)].map((one) => [keyOf(one), headOf(one)]))
  return { heads, computed: new Set(findGeneratedColumns(database)) }
}

/** Only when all tables are known to be real ones: to list the columns of a virtual table, SQLite runs its module. */
function* findGeneratedColumns(database: DatabaseSync): Iterable<string> {
  const rows = database
    .prepare(
      `SELECT s.name || '.' || c.name AS name FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS c
       WHERE s.type = 'table' AND c.hidden <> 0`,
    )
    .iterate()
  for (const { name } of rows) yield name as string
}

function objectsIn(database: DatabaseSync): Iterable<SchemaObject> {
  return database
    .prepare(
      `SELECT type, substr(name, 1, ${MAX_NAME}) AS name, substr(sql, 1, ${MAX_HEAD}) AS sql FROM sqlite_schema`,
    )
    .iterate() as Iterable<unknown> as Iterable<SchemaObject>
}

function keyOf({ type, name }: SchemaObject): string {
  return `${type} ${name}`
}

/**
 * Up to the columns of a table or index, or the body of a trigger. It tells a virtual table from a table, and a trigger that
 * refuses a change from one that follows every insert.
 */
function headOf({ type, sql }: SchemaObject): string {
  // An index that SQLite makes for a constraint has none.
  const [head = ''] = (sql ?? '').split(type === 'trigger' ? /\bBEGIN\b/i : '(', 1)
  // A table that was renamed and renamed back has its name in quotation marks.
  return head.replaceAll('"', '').replace(/\s+/g, ' ').trim()
}

function kindOf({ type, sql }: SchemaObject): string {
  if (type === 'table' && /^CREATE\s+VIRTUAL\b/i.test(sql ?? '')) return 'virtual table'
  return ['table', 'index', 'trigger', 'view'].includes(type) ? type : 'schema entry'
}

function article(kind: string): string {
  return kind === 'index' ? `an ${kind}` : `a ${kind}`
}

/** The name is a stranger's, and terminals obey what some characters say. */
function quote(name: string): string {
  return JSON.stringify(name.replace(/[^\x20-\x7e]/g, '?'))
}

function foreign(found: string): CraikError {
  return new CraikError('store_damaged', `state/craik.sqlite3 is not a Craik database: ${found}`, {
    hint: 'restore it from a backup; if someone sent you this home, ask for the output of  craik receipts export',
  })
}
