/**
 * The stored record of a snapshot. It is sealed, so that Craik detects an edit of the database before it uses the
 * record.
 */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import { reference } from '../../policy/decision-request.ts'
import { manifestSchema, SNAPSHOT_ID, SNAPSHOT_NAME } from './snapshot-manifest.ts'

const snapshotRecord = z.strictObject({
  id: z.string().regex(SNAPSHOT_ID),
  /** The name in this home. The manifest of an imported snapshot can contain another one. */
  name: z.string().regex(SNAPSHOT_NAME),
  /** The digest of the manifest, and through it of everything in the snapshot. */
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  manifest: manifestSchema,
  imported: z.boolean(),
  operator: reference,
  /** The policy envelope of the original sandbox. Sandboxes from this snapshot use the same one. */
  policy_envelope_id: reference,
  /** The grants that were created with the snapshot, by capability. They are revoked with it. */
  owner_grants: z.record(z.string(), reference),
  created_at_ms: z.int(),
})

type Parsed = z.infer<typeof snapshotRecord>
export type SnapshotRecord = Omit<Parsed, 'id'> & { readonly id: SnapshotId }

export function parseSnapshot(document: string): SnapshotRecord {
  const parsed = snapshotRecord.safeParse(JSON.parse(document))
  if (!parsed.success) throw new CraikError('store_damaged', 'cannot read the record of a snapshot')
  return parsed.data as SnapshotRecord
}

export function sealOfSnapshot(id: string): string {
  return `snapshot:${id}`
}

export function damagedSnapshotError(id: string): CraikError {
  return new CraikError('tampered', `the record of snapshot ${id} was changed outside Craik`, {
    hint: `check the log:  craik receipts verify   or delete the snapshot:  craik snapshot delete ${id}   (nothing was done)`,
  })
}

export function unknownSnapshot(idOrName: string): CraikError {
  return new CraikError('not_found', `unknown snapshot: ${idOrName}`, {
    hint: 'list the snapshots:  craik snapshot list',
  })
}
