/** A place that was started before anybody asked for one, as the store keeps it: sealed, as a sandbox is. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { BACKEND_NAMES } from '../backend.ts'
import { owner, place, type SandboxRecord, sandboxId, spec, uid } from '../lifecycle/sandbox-record.ts'

/** Of one home, counted or not: more are never looked through. */
export const MAX_WARM_ROWS = 256

const warmRecord = z.strictObject({
  /** Of the sandbox that it will be. */
  id: sandboxId,
  backend: z.enum(BACKEND_NAMES),
  /** Only what is `ready` becomes a sandbox; what is `leaving` never does again. */
  state: z.enum(['starting', 'ready', 'leaving']),
  spec,
  /** What it can be shown of the host though it runs already; null: nothing. */
  late: z.strictObject({ workspace: z.boolean(), mounts: z.boolean() }).nullable().default(null),
  place: place.nullable(),
  allocated_uid: uid.nullable(),
  /** The process whose it is: its sidecar is connected there. */
  owner,
  created_at_ms: z.int(),
})

type Parsed = z.infer<typeof warmRecord>
export type WarmRecord = Omit<Parsed, 'id' | 'spec'> &
  Pick<SandboxRecord, 'spec'> & { readonly id: SandboxId }

export function parseWarm(document: string): WarmRecord {
  const parsed = warmRecord.safeParse(JSON.parse(document))
  if (!parsed.success) throw new CraikError('store_damaged', 'cannot read the record of a warm instance')
  return parsed.data as WarmRecord
}
