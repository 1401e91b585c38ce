/** Reads snapshot records outside a transaction. A record that does not match its seal is not used. */
import { CraikError } from '../../errors.ts'
import { checkRecord } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { ReadDeps } from '../lifecycle/read-records.ts'
import { SNAPSHOT_LIMITS } from './snapshot-manifest.ts'
import {
  damagedSnapshotError,
  parseSnapshot,
  type SnapshotRecord,
  sealOfSnapshot,
  unknownSnapshot,
} from './snapshot-record.ts'

/** A record that was changed, or cannot be read, does not hide the others. */
export type ListedSnapshot =
  | { readonly id: string; readonly record: SnapshotRecord }
  | { readonly id: string; readonly record: undefined; readonly problem: string }

/** Returns the newest first. */
export async function listSnapshots({ store, home }: ReadDeps): Promise<readonly ListedSnapshot[]> {
  const rows = await store.read((tables) => tables.snapshots.list({}, 2 * SNAPSHOT_LIMITS.snapshots))
  return rows.map((row) => {
    try {
      return { id: row.id, record: readVerified(home, row) }
    } catch (error) {
      if (!(error instanceof CraikError)) throw error
      return { id: row.id, record: undefined, problem: error.message }
    }
  })
}

/** Finds a snapshot by id or name. */
export async function getSnapshot({ store, home }: ReadDeps, idOrName: string): Promise<SnapshotRecord> {
  const row = await store.read(
    async ({ snapshots }) =>
      (await snapshots.get(idOrName)) ?? (await snapshots.list({ name: idOrName }, 1)).at(0),
  )
  if (row === undefined) throw unknownSnapshot(idOrName)
  return readVerified(home, row)
}

function readVerified(home: Home, { id, document, seal }: SealedRow): SnapshotRecord {
  if (checkRecord(home, sealOfSnapshot(id), document, seal) !== 'verified') throw damagedSnapshotError(id)
  return parseSnapshot(document)
}
