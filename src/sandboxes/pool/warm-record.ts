/**
 * The stored record of a warm instance, which started before any request for it. It is sealed like that of a sandbox.
 */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { BACKEND_NAMES } from '../backend.ts'
import { owner, place, type SandboxRecord, sandboxId, spec, uid } from '../lifecycle/sandbox-record.ts'

/** Craik never reads more rows of one home, whether they count as warm instances or not. */
export const MAX_WARM_ROWS = 256

const warmRecord = z.strictObject({
  /** The id that the sandbox will have. */
  id: sandboxId,
  backend: z.enum(BACKEND_NAMES),
  /** Only a `ready` instance becomes a sandbox. A `leaving` one never does. */
  state: z.enum(['starting', 'ready', 'leaving']),
  spec,
  /** The kinds of host folders that can be mounted in the running instance. Null means none. */
  late: z.strictObject({ workspace: z.boolean(), mounts: z.boolean() }).nullable().default(null),
  place: place.nullable(),
  allocated_uid: uid.nullable(),
  /** The process that owns the instance. Its sidecar is connected to that process. */
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
