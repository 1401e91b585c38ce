/** The tables of small records: documents, envelopes, grants, secrets and command references. */
import type { DatabaseSync } from 'node:sqlite'
import type {
  CommandRow,
  CommandTable,
  DocumentRow,
  DocumentTable,
  EnvelopeRow,
  EnvelopeTable,
  GrantRow,
  GrantTable,
  SecretRow,
  SecretTable,
} from '../store.ts'
import { lazyStatement } from './statement.ts'

export function documentTable(database: DatabaseSync): DocumentTable {
  const columns = 'digest, media_type AS mediaType, text'
  const put = lazyStatement(
    database,
    'INSERT OR IGNORE INTO documents (digest, media_type, text) VALUES (?, ?, ?)',
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM documents WHERE digest = ?`)
  const list = lazyStatement(database, `SELECT ${columns} FROM documents ORDER BY digest`)
  return {
    async put(row) {
      put().run(row.digest, row.mediaType, row.text)
    },
    get: async (digest) => get().get(digest) as DocumentRow | undefined,
    list: async () => list().all() as unknown as DocumentRow[],
  }
}

export function envelopeTable(database: DatabaseSync): EnvelopeTable {
  const insert = lazyStatement(
    database,
    'INSERT INTO envelopes (id, document, created_at_ms) VALUES (?, ?, ?)',
  )
  const get = lazyStatement(
    database,
    'SELECT id, document, created_at_ms AS createdAtMs FROM envelopes WHERE id = ?',
  )
  return {
    async insert(row) {
      insert().run(row.id, row.document, row.createdAtMs)
    },
    get: async (id) => get().get(id) as EnvelopeRow | undefined,
  }
}

export function grantTable(database: DatabaseSync): GrantTable {
  const columns = `id, capability, subject, document, uses_left AS usesLeft, expires_at_ms AS expiresAtMs,
    revoked_at_ms AS revokedAtMs, created_at_ms AS createdAtMs`
  const insert = lazyStatement(
    database,
    `INSERT INTO grants (id, capability, subject, document, uses_left, expires_at_ms, revoked_at_ms, created_at_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM grants WHERE id = ?`)
  const list = lazyStatement(
    database,
    `SELECT ${columns} FROM grants ORDER BY created_at_ms DESC, id DESC LIMIT ?`,
  )
  const usable = lazyStatement(
    database,
    `SELECT ${columns} FROM grants WHERE capability = ? AND subject = ? AND (uses_left IS NULL OR uses_left > 0)
       AND revoked_at_ms IS NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?)
     ORDER BY created_at_ms DESC, id DESC`,
  )
  const consume = lazyStatement(
    database,
    'UPDATE grants SET uses_left = uses_left - 1 WHERE id = ? AND (uses_left IS NULL OR uses_left > 0)',
  )
  const revoke = lazyStatement(
    database,
    'UPDATE grants SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL',
  )
  return {
    async insert(row) {
      insert().run(
        row.id,
        row.capability,
        row.subject,
        row.document,
        row.usesLeft,
        row.expiresAtMs,
        row.revokedAtMs,
        row.createdAtMs,
      )
    },
    get: async (id) => get().get(id) as GrantRow | undefined,
    list: async (limit) => list().all(limit) as unknown as GrantRow[],
    usable: async (capability, subject, nowMs) =>
      usable().all(capability, subject, nowMs) as unknown as GrantRow[],
    consume: async (id) => consume().run(id).changes === 1,
    revoke: async (id, atMs) => revoke().run(atMs, id).changes === 1,
  }
}

export function secretTable(database: DatabaseSync): SecretTable {
  const columns = 'name, source, reference, sealed, updated_at_ms AS updatedAtMs'
  const put = lazyStatement(
    database,
    'INSERT OR REPLACE INTO secrets (name, source, reference, sealed, updated_at_ms) VALUES (?, ?, ?, ?, ?)',
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM secrets WHERE name = ?`)
  const list = lazyStatement(database, `SELECT ${columns} FROM secrets ORDER BY name`)
  const remove = lazyStatement(database, 'DELETE FROM secrets WHERE name = ?')
  return {
    async put(row) {
      put().run(row.name, row.source, row.reference, row.sealed, row.updatedAtMs)
    },
    get: async (name) => get().get(name) as SecretRow | undefined,
    list: async () => list().all() as unknown as SecretRow[],
    remove: async (name) => remove().run(name).changes === 1,
  }
}

export function commandTable(database: DatabaseSync): CommandTable {
  const insert = lazyStatement(database, 'INSERT INTO commands (ref, argv, created_at_ms) VALUES (?, ?, ?)')
  const get = lazyStatement(
    database,
    'SELECT ref, argv, created_at_ms AS createdAtMs FROM commands WHERE ref = ?',
  )
  const list = lazyStatement(
    database,
    'SELECT ref, argv, created_at_ms AS createdAtMs FROM commands ORDER BY ref',
  )
  const remove = lazyStatement(database, 'DELETE FROM commands WHERE ref = ?')
  const parse = (row: Record<string, unknown>): CommandRow => ({
    ref: row.ref as string,
    argv: JSON.parse(row.argv as string) as string[],
    createdAtMs: row.createdAtMs as number,
  })
  return {
    async insert(row) {
      insert().run(row.ref, JSON.stringify(row.argv), row.createdAtMs)
    },
    async get(ref) {
      const row = get().get(ref)
      return row && parse(row)
    },
    list: async () => list().all().map(parse),
    remove: async (ref) => remove().run(ref).changes === 1,
  }
}
