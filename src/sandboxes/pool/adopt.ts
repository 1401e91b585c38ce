/** A place that waited becomes a sandbox's: in the transaction that decides about the sandbox, so that it happens once. */
import { isDeepStrictEqual } from 'node:util'
import { saveCounts } from '../lifecycle/count-procedures.ts'
import { NOTHING_COUNTED } from '../lifecycle/count-receipts.ts'
import { sameOwner } from '../lifecycle/recovery-procedures.ts'
import type { RecordedInstance } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import type { BeginCreateInput } from '../lifecycle/tokens.ts'
import { hotMountsFor } from './instance-shape.ts'
import { findWarmInstance } from './pool-procedures.ts'
import type { WarmRecord } from './warm-record.ts'

export type ReadyInstance = WarmRecord & { readonly place: RecordedInstance }

/** The one that was offered, if it is still there for this process, and is what would be started for the request. */
export async function isOffered(
  records: SandboxRecords,
  input: BeginCreateInput,
): Promise<ReadyInstance | undefined> {
  const warm = input.adopt && (await findWarmInstance(records, input.adopt.id))
  if (warm?.state !== 'ready' || warm.place === null) return undefined
  const { spec } = warm
  const isFitting =
    sameOwner(warm.owner, input.owner) &&
    warm.backend === input.backend &&
    spec.isolation === input.isolation &&
    isDeepStrictEqual(warm.late, hotMountsFor(input)) &&
    input.snapshot === undefined &&
    isDeepStrictEqual(spec.limits, input.limits) &&
    isDeepStrictEqual(spec.container, input.container ?? null) &&
    (input.hostUser === 'allocate'
      ? warm.allocated_uid !== null
      : warm.allocated_uid === null && isDeepStrictEqual(spec.hostUser, input.hostUser ?? null))
  return isFitting ? { ...warm, place: warm.place } : undefined
}

/** The sandbox is on record, and its epoch begins; there is no such place any more. */
export async function takeInstance(
  records: SandboxRecords,
  { id }: ReadyInstance,
  epoch: string,
): Promise<void> {
  await records.tables.warmPlaces.remove(id)
  await saveCounts(records, { id, epoch, counts: NOTHING_COUNTED })
}
