/**
 * Turns a warm instance into that of a sandbox, in the transaction that decides about the sandbox. So it happens only
 * once.
 */
import { isDeepStrictEqual } from 'node:util'
import { sameOwner } from '../../lib/owner.ts'
import { saveCounts } from '../lifecycle/count-procedures.ts'
import { NOTHING_COUNTED } from '../lifecycle/count-receipts.ts'
import type { RecordedInstance } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import type { BeginCreateInput } from '../lifecycle/tokens.ts'
import { hotMountsFor } from './instance-shape.ts'
import { findWarmInstance } from './pool-procedures.ts'
import type { WarmRecord } from './warm-record.ts'

export type ReadyInstance = WarmRecord & { readonly place: RecordedInstance }

/**
 * Returns the offered instance if it still belongs to this process and equals what Craik would start for the request.
 */
export async function findOfferedInstance(
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

/**
 * Removes the record of the warm instance and opens the sandbox's boundary epoch. The sandbox itself is recorded
 * already.
 */
export async function takeInstance(
  records: SandboxRecords,
  { id }: ReadyInstance,
  epoch: string,
): Promise<void> {
  await records.tables.warmInstances.remove(id)
  await saveCounts(records, { id, epoch, counts: NOTHING_COUNTED })
}
