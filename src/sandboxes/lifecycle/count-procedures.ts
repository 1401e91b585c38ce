/** The counts of boundaries. Craik saves them while an epoch is open, and writes a receipt when it closes. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import { type Begin, endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { BoundaryCounts } from '../boundary/boundary.ts'
import {
  COUNT_CAPABILITY,
  COUNT_MEASURES,
  COUNT_NAMES,
  COUNT_OPERATION,
  NOTHING_COUNTED,
  parseCounts,
} from './count-receipts.ts'
import { commitDecision, evaluateSandbox, requestAbout, sandboxLinks } from './decide-sandbox.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { Destination } from './tokens.ts'

interface Epoch {
  readonly id: SandboxId
  readonly epoch: string
}

export async function saveCounts(
  records: SandboxRecords,
  { id, epoch, counts }: Epoch & { readonly counts: BoundaryCounts },
): Promise<void> {
  await records.sandbox(id)
  const saved = await records.tables.boundaryEpochs.get(id, epoch)
  await putCounts(
    records,
    { id, epoch },
    maxCounts(id, saved ? parseCounts(saved.counts) : NOTHING_COUNTED, counts),
  )
}

export async function closeEpoch(
  records: SandboxRecords,
  input: Epoch & { readonly counts?: BoundaryCounts },
): Promise<ReceiptRef | undefined> {
  const record = await records.sandbox(input.id)
  const links = { ...sandboxLinks(record), policy_envelope_id: record.policy_envelope_id }
  return closeEpochOf(records, { operator: record.operator, links }, input)
}

export async function closeEpochOf(
  records: SandboxRecords,
  { operator, links }: Pick<Begin, 'operator' | 'links'>,
  { id, epoch, counts }: Epoch & { readonly counts?: BoundaryCounts },
): Promise<ReceiptRef | undefined> {
  const { tables, sealer } = records
  const saved = await tables.boundaryEpochs.get(id, epoch)
  if (saved?.closed || (saved === undefined && counts === undefined)) return undefined
  const before = saved ? parseSavedCounts(saved.counts) : NOTHING_COUNTED
  const final = maxCounts(id, before, counts ?? NOTHING_COUNTED)
  await putCounts(records, { id, epoch }, final)
  await tables.boundaryEpochs.close(id, epoch)
  return sealer.append(tables, {
    kind: 'sandbox_action',
    phase: 'point',
    status: 'passed',
    operator,
    capability: COUNT_CAPABILITY,
    operation: COUNT_OPERATION,
    target: `sandbox/${id}`,
    links,
    measures: COUNT_NAMES.map((name) => ({
      name: COUNT_MEASURES[name],
      value: final[name],
      source: 'observed',
    })),
    metadata: { epoch, complete: counts !== undefined },
  })
}

export async function closeLeftEpochs(
  records: SandboxRecords,
  { id, except }: { readonly id: SandboxId; readonly except?: string },
): Promise<readonly string[]> {
  const left = (await records.tables.boundaryEpochs.open(id)).filter(({ epoch }) => epoch !== except)
  for (const { epoch } of left) await closeEpoch(records, { id, epoch })
  return left.map(({ epoch }) => epoch)
}

/**
 * Programs in a sandbox have no way out yet, so no grant is looked up. If the envelope allows the connection anyway,
 * the operation ends as blocked: the host has nothing to connect it to.
 */
export async function refuseInbound(
  records: SandboxRecords,
  {
    id,
    epoch,
    count,
    destinations = [],
    owner,
  }: Epoch & {
    readonly count: number
    readonly destinations?: readonly Destination[]
    readonly owner: Owner
  },
): Promise<ReceiptRef> {
  const record = await records.sandbox(id)
  const asks = { capability: 'network.egress', operation: 'connect' } as const
  const evaluated = await evaluateSandbox(records, {
    ...requestAbout(record, asks, { operator: record.operator }),
    lookUp: false,
  })
  const named = destinations.map((each) => ({ ...each }))
  const receipt = {
    links: sandboxLinks(record),
    metadata: { epoch, count, ...(named.length > 0 && { destinations: named }) },
  }
  const settled = await commitDecision(records, evaluated, receipt, owner)
  if (settled.effect === 'denied') return settled.ref
  const { id: beginId, begin } = settled.begun
  return records.sealer.append(
    records.tables,
    endDraft(beginId, begin, { status: 'blocked', metadata: { epoch } }),
  )
}

type CountedArrivals = Epoch & { readonly count: number }

/** Policy is not evaluated, because the host has no capacity, whatever the sandbox may reach. */
export function refuseSurplus(records: SandboxRecords, arrived: CountedArrivals): Promise<ReceiptRef> {
  return noteArrived(records, arrived, {
    kind: 'denial',
    status: 'blocked',
    decision: { effect: 'deny', rule: 'boundary.connections', missing: [], replayable: false },
    metadata: { denied_kind: 'egress' },
  })
}

export function noteInbound(records: SandboxRecords, arrived: CountedArrivals): Promise<ReceiptRef> {
  return noteArrived(records, arrived, { kind: 'egress', status: 'passed' })
}

async function noteArrived(
  records: SandboxRecords,
  { id, epoch, count }: CountedArrivals,
  draft: Pick<ReceiptDraft, 'kind' | 'status' | 'decision' | 'metadata'>,
): Promise<ReceiptRef> {
  const record = await records.sandbox(id)
  return records.sealer.append(records.tables, {
    ...draft,
    phase: 'point',
    operator: record.operator,
    capability: 'network.egress',
    operation: 'reach_gateway',
    target: `sandbox/${id}`,
    links: { ...sandboxLinks(record), policy_envelope_id: record.policy_envelope_id },
    metadata: { ...draft.metadata, epoch, count },
  })
}

async function putCounts(
  { tables, nowMs }: SandboxRecords,
  { id, epoch }: Epoch,
  counts: BoundaryCounts,
): Promise<void> {
  const row = { sandboxId: id, epoch, counts: JSON.stringify(counts), updatedAtMs: nowMs }
  if (await tables.boundaryEpochs.put(row)) return
  throw new CraikError(
    'conflict',
    `cannot record the traffic of sandbox ${id}: its connection ${epoch} is already closed`,
    { hint: `show the state of the sandbox:  craik sandbox show ${id}` },
  )
}

/**
 * Counts that were changed outside Craik do not prevent the end of an epoch. The receipts that they should match still
 * exist.
 */
function parseSavedCounts(counts: string): BoundaryCounts {
  try {
    return parseCounts(counts)
  } catch {
    return NOTHING_COUNTED
  }
}

/** Counts only increase. A late response with lower counts reduces nothing. */
function maxCounts(id: SandboxId, a: BoundaryCounts, b: BoundaryCounts): BoundaryCounts {
  const both = COUNT_NAMES.map((name) => {
    if (!Number.isSafeInteger(b[name]) || b[name] < 0)
      throw new CraikError(
        'internal',
        `the traffic count ${name} of sandbox ${id} is not a valid number: ${b[name]}`,
      )
    return [name, Math.max(a[name], b[name])] as const
  })
  return Object.fromEntries(both) as unknown as BoundaryCounts
}
