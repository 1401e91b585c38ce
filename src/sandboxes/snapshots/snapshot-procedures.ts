/** The procedures of the writer thread for snapshots. */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import type { Capability } from '../../policy/capabilities.ts'
import { refuseSecrets } from '../../policy/decision-request.ts'
import { createGrants, MAX_LIFETIME_MS, revokeGrants } from '../../policy/grant-procedures.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { sandboxEnvelope } from '../lifecycle/create-procedures.ts'
import { commitDecision, evaluateSandbox } from '../lifecycle/decide-sandbox.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { endTransition } from '../lifecycle/transition-procedures.ts'
import { manifestDigest, SNAPSHOT_LIMITS, type SnapshotManifest } from './snapshot-manifest.ts'
import {
  damagedSnapshotError,
  parseSnapshot,
  type SnapshotRecord,
  sealOfSnapshot,
  unknownSnapshot,
} from './snapshot-record.ts'
import type {
  BeginImportInput,
  BeginImportOutput,
  BeginSnapshotActionInput,
  BeginSnapshotActionOutput,
  EndImportInput,
  EndSnapshotActionInput,
  EndSnapshotInput,
  SnapshotAction,
} from './tokens.ts'

const CAPABILITY: Readonly<Record<SnapshotAction, Capability>> = {
  use: 'sandbox.restore',
  export: 'sandbox.snapshot',
  delete: 'sandbox.snapshot',
}

export async function endSnapshot(
  records: SandboxRecords,
  { id, manifest, operator, measures }: EndSnapshotInput,
): Promise<SnapshotRecord> {
  const { record } = await endTransition(records, {
    id,
    status: 'passed',
    ...(measures && { measures }),
    metadata: { snapshot: manifest.id, digest: manifestDigest(manifest), still: manifest.content.still },
  })
  return recordSnapshot(records, manifest, {
    id: manifest.id as SnapshotId,
    name: manifest.name,
    imported: false,
    operator,
    policyEnvelopeId: record.policy_envelope_id,
  })
}

export async function beginSnapshotAction(
  records: SandboxRecords,
  { id, action, operator, grantId, owner, sandboxId, metadata }: BeginSnapshotActionInput,
): Promise<BeginSnapshotActionOutput> {
  const record = await snapshotIn(records, id)
  const capability = CAPABILITY[action]
  const evaluated = await evaluateSandbox(records, {
    capability,
    operation: action,
    operator,
    target: `snapshot/${id}`,
    policyEnvelopeId: record.policy_envelope_id,
    grantId,
    ownGrantId: operator === record.operator ? record.owner_grants[capability] : undefined,
  })
  const settled = await commitDecision(
    records,
    evaluated,
    {
      links: { target_id: id, ...(sandboxId !== undefined && { sandbox_id: sandboxId }) },
      metadata: { ...metadata, digest: record.digest },
    },
    owner,
  )
  return settled.effect === 'denied' ? settled : { ...settled, record }
}

export async function endSnapshotAction(
  records: SandboxRecords,
  { id, begun, action, status, measures, metadata }: EndSnapshotActionInput,
): Promise<ReceiptRef> {
  if (action === 'delete' && status === 'passed') {
    const { owner_grants } = await snapshotIn(records, id)
    const { tables, sealer, clock } = records
    const revoked = {
      ids: Object.values(owner_grants),
      operator: begun.begin.operator,
      about: `snapshot/${id}`,
    }
    await revokeGrants(tables, revoked, sealer, clock)
    await records.tables.snapshots.remove(id)
  }
  const outcome = { status, ...(measures && { measures }), ...(metadata && { metadata }) }
  return records.sealer.append(records.tables, endDraft(begun.id, begun.begin, outcome))
}

export async function beginImport(
  records: SandboxRecords,
  { operator, grantId, owner }: BeginImportInput,
): Promise<BeginImportOutput> {
  const evaluated = await evaluateSandbox(records, {
    capability: 'sandbox.snapshot',
    operation: 'import',
    operator,
    target: 'snapshot/new',
    policyEnvelopeId: await sandboxEnvelope(records, operator),
    grantId,
  })
  return commitDecision(records, evaluated, { links: {} }, owner)
}

export async function endImport(
  records: SandboxRecords,
  input: EndImportInput,
): Promise<SnapshotRecord | undefined> {
  const { begun, status } = input
  const { operator } = begun.begin
  const append = (outcome: Parameters<typeof endDraft>[2]) =>
    records.sealer.append(records.tables, endDraft(begun.id, begun.begin, outcome))
  if (status !== 'passed') {
    await append({ status, ...(input.metadata && { metadata: input.metadata }) })
    return undefined
  }
  const { id, name, manifest, measures } = input
  const record = await recordSnapshot(records, manifest, {
    id,
    name,
    imported: true,
    operator,
    policyEnvelopeId: await sandboxEnvelope(records, operator),
  })
  const metadata = { snapshot: id, digest: record.digest }
  await append({ status, metadata, ...(measures && { measures }) })
  return record
}

async function recordSnapshot(
  records: SandboxRecords,
  manifest: SnapshotManifest,
  provided: Pick<SnapshotRecord, 'id' | 'name' | 'imported' | 'operator'> & {
    readonly policyEnvelopeId: string
  },
): Promise<SnapshotRecord> {
  const { id, name, imported, operator, policyEnvelopeId } = provided
  refuseSecrets({ name }, 'the snapshot')
  const { snapshots } = records.tables
  if ((await snapshots.list({ name }, 1)).length > 0) throw nameTakenError(name)
  if ((await snapshots.list({}, SNAPSHOT_LIMITS.snapshots)).length >= SNAPSHOT_LIMITS.snapshots)
    throw new CraikError('limit_reached', `the limit of ${SNAPSHOT_LIMITS.snapshots} snapshots is reached`, {
      hint: 'delete a snapshot that you do not need:  craik snapshot delete ID',
    })
  const record: SnapshotRecord = {
    id,
    name,
    digest: manifestDigest(manifest),
    manifest,
    imported,
    operator,
    policy_envelope_id: policyEnvelopeId,
    owner_grants: await grantToOwner(records, id, operator),
    created_at_ms: records.nowMs,
  }
  const document = canonicalJson(JSON.parse(JSON.stringify(record)) as Json)
  parseSnapshot(document)
  const seal = await records.sealer.sealRecord(records.tables, sealOfSnapshot(id), document)
  if (!(await snapshots.insert({ id, document, seal, createdAtMs: records.nowMs })))
    throw new CraikError('conflict', `snapshot ${id} already exists`)
  return record
}

export function nameTakenError(name: string): CraikError {
  return new CraikError('conflict', `a snapshot named ${name} already exists`, {
    hint: 'choose another --name',
  })
}

/** Throws when the record was changed outside Craik. */
export async function snapshotIn(records: SandboxRecords, id: string): Promise<SnapshotRecord> {
  const row = await records.tables.snapshots.get(id)
  if (row === undefined) throw unknownSnapshot(id)
  let status: string
  try {
    status = records.sealer.checkRecord(sealOfSnapshot(id), row.document, row.seal)
  } catch {
    status = 'tampered'
  }
  if (status !== 'verified') throw damagedSnapshotError(id)
  return parseSnapshot(row.document)
}

/** Allows the operator who created a snapshot to use, export and delete it. */
function grantToOwner(
  { tables, sealer, clock, nowMs }: SandboxRecords,
  id: SnapshotId,
  operator: string,
): Promise<Readonly<Record<string, string>>> {
  const about = `snapshot/${id}`
  const operations = new Map<string, string[]>()
  for (const [action, capability] of Object.entries(CAPABILITY))
    operations.set(capability, [...(operations.get(capability) ?? []), action])
  const terms = {
    subject: operator,
    target: { ref: about },
    max_uses: null,
    reason: 'came with the snapshot',
    approved_by: operator,
  }
  return createGrants(
    tables,
    { terms, operations, expiresAtMs: nowMs + MAX_LIFETIME_MS, about },
    sealer,
    clock,
  )
}
