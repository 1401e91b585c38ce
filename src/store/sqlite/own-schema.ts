/**
 * Refuses a database whose schema is not Craik's. SQLite executes the schema in the file. A view in place of a table
 * can compute endless rows, and nothing interrupts a query in this process.
 */
import { DatabaseSync } from 'node:sqlite'
import { CraikError } from '../../errors.ts'
import { memoize } from '../../lib/memoize.ts'
import { MIGRATIONS, VERSIONS_TABLE } from '../migrations.ts'

/** Longer than any of Craik's names, so that a longer name differs without being read completely. */
const MAX_NAME = 100
const MAX_HEAD = 400

interface SchemaObject {
  readonly type: string
  readonly name: string
  readonly sql: string | null
}

/**
 * Each object must have the type, name and table of an object that the migrations up to `version` create. Some can be
 * missing. Columns and bodies can differ, so that homes of earlier builds open. Only Craik's own columns can be
 * computed ones.
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

/** Cached, because every opening needs the schema twice and creating it takes 2 ms. */
const ownSchemaAt = memoize((version) => makeOwnSchema(Number(version)), MIGRATIONS.length)

/** Creates the schema in memory, because only SQLite can determine the result of a migration. */
function makeOwnSchema(version: number): OwnSchema {
  using database = new DatabaseSync(':memory:')
  database.exec(VERSIONS_TABLE)
  for (const step of MIGRATIONS) if (step.version <= version) database.exec(step.sql)
  const heads = new Map([...objectsIn(database)].map((one) => [keyOf(one), headOf(one)]))
  return { heads, computed: new Set(findGeneratedColumns(database)) }
}

/**
 * Call this only when all tables are known to be real ones. To list the columns of a virtual table, SQLite runs its
 * module.
 */
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
 * Returns the statement up to the columns of a table or index, or up to the body of a trigger. This distinguishes a
 * virtual table from a table, and a trigger that refuses a change from one that runs after every insert.
 */
function headOf({ type, sql }: SchemaObject): string {
  // An index that SQLite creates for a constraint has no statement.
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

/** The name can come from another user, and some characters control the terminal. */
function quote(name: string): string {
  return JSON.stringify(name.replace(/[^\x20-\x7e]/g, '?'))
}

function foreign(found: string): CraikError {
  return new CraikError('store_damaged', `state/craik.sqlite3 is not a Craik database: ${found}`, {
    hint: 'restore the file from a backup; if someone sent you this home, ask for the output of  craik receipts export',
  })
}
