/** What the writer thread does for snapshots. */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import type { Capability } from '../../policy/capabilities.ts'
import { createGrants, MAX_LIFETIME_MS, revokeGrants } from '../../policy/grant-procedures.ts'
import { refuseSecrets } from '../../policy/request.ts'
import { endDraft } from '../../receipts/log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { commitDecision, evaluateSandbox } from '../lifecycle/decide.ts'
import { sandboxEnvelope } from '../lifecycle/procedures-create.ts'
import { endTransition } from '../lifecycle/procedures-transition.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { manifestDigest, SNAPSHOT_LIMITS, type SnapshotManifest } from './manifest.ts'
import {
  damagedSnapshot,
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
  keeper: SandboxRecords,
  { id, manifest, operator, measures }: EndSnapshotInput,
): Promise<SnapshotRecord> {
  const { record } = await endTransition(keeper, {
    id,
    status: 'passed',
    ...(measures && { measures }),
    metadata: { snapshot: manifest.id, digest: manifestDigest(manifest), still: manifest.content.still },
  })
  return keep(keeper, manifest, {
    id: manifest.id as SnapshotId,
    name: manifest.name,
    imported: false,
    operator,
    policyEnvelopeId: record.policy_envelope_id,
  })
}

export async function beginSnapshotAction(
  keeper: SandboxRecords,
  { id, action, operator, grantId, owner, sandboxId, metadata }: BeginSnapshotActionInput,
): Promise<BeginSnapshotActionOutput> {
  const record = await snapshotIn(keeper, id)
  const capability = CAPABILITY[action]
  const judged = await evaluateSandbox(keeper, {
    capability,
    operation: action,
    operator,
    target: `snapshot/${id}`,
    policyEnvelopeId: record.policy_envelope_id,
    grantId,
    ownGrantId: operator === record.operator ? record.owner_grants[capability] : undefined,
  })
  const settled = await commitDecision(
    keeper,
    judged,
    {
      links: { target_id: id, ...(sandboxId !== undefined && { sandbox_id: sandboxId }) },
      metadata: { ...metadata, digest: record.digest },
    },
    owner,
  )
  return settled.effect === 'denied' ? settled : { ...settled, record }
}

export async function endSnapshotAction(
  keeper: SandboxRecords,
  { id, begun, action, status, measures, metadata }: EndSnapshotActionInput,
): Promise<ReceiptRef> {
  if (action === 'delete' && status === 'passed') {
    const { owner_grants } = await snapshotIn(keeper, id)
    const { tables, sealer, clock } = keeper
    const revoked = {
      ids: Object.values(owner_grants),
      operator: begun.begin.operator,
      about: `snapshot/${id}`,
    }
    await revokeGrants(tables, revoked, sealer, clock)
    await keeper.tables.snapshots.remove(id)
  }
  const outcome = { status, ...(measures && { measures }), ...(metadata && { metadata }) }
  return keeper.sealer.append(keeper.tables, endDraft(begun.id, begun.begin, outcome))
}

export async function beginImport(
  keeper: SandboxRecords,
  { operator, grantId, owner }: BeginImportInput,
): Promise<BeginImportOutput> {
  const judged = await evaluateSandbox(keeper, {
    capability: 'sandbox.snapshot',
    operation: 'import',
    operator,
    target: 'snapshot/new',
    policyEnvelopeId: await sandboxEnvelope(keeper, operator),
    grantId,
  })
  return commitDecision(keeper, judged, { links: {} }, owner)
}

export async function endImport(
  keeper: SandboxRecords,
  input: EndImportInput,
): Promise<SnapshotRecord | undefined> {
  const { begun, status } = input
  const { operator } = begun.begin
  const append = (outcome: Parameters<typeof endDraft>[2]) =>
    keeper.sealer.append(keeper.tables, endDraft(begun.id, begun.begin, outcome))
  if (status !== 'passed') {
    await append({ status, ...(input.metadata && { metadata: input.metadata }) })
    return undefined
  }
  const { id, name, manifest, measures } = input
  const record = await keep(keeper, manifest, {
    id,
    name,
    imported: true,
    operator,
    policyEnvelopeId: await sandboxEnvelope(keeper, operator),
  })
  const metadata = { snapshot: id, digest: record.digest }
  await append({ status, metadata, ...(measures && { measures }) })
  return record
}

async function keep(
  keeper: SandboxRecords,
  manifest: SnapshotManifest,
  given: Pick<SnapshotRecord, 'id' | 'name' | 'imported' | 'operator'> & {
    readonly policyEnvelopeId: string
  },
): Promise<SnapshotRecord> {
  const { id, name, imported, operator, policyEnvelopeId } = given
  refuseSecrets({ name }, 'the snapshot')
  const { snapshots } = keeper.tables
  if ((await snapshots.list({ name }, 1)).length > 0) throw nameTakenError(name)
  if ((await snapshots.list({}, SNAPSHOT_LIMITS.snapshots)).length >= SNAPSHOT_LIMITS.snapshots)
    throw new CraikError('limit_reached', `the limit of ${SNAPSHOT_LIMITS.snapshots} snapshots is reached`, {
      hint: 'delete one that you do not need:  craik snapshot delete ID',
    })
  const record: SnapshotRecord = {
    id,
    name,
    digest: manifestDigest(manifest),
    manifest,
    imported,
    operator,
    policy_envelope_id: policyEnvelopeId,
    owner_grants: await grantToOwner(keeper, id, operator),
    created_at_ms: keeper.nowMs,
  }
  const document = canonicalJson(JSON.parse(JSON.stringify(record)) as Json)
  parseSnapshot(document)
  const seal = await keeper.sealer.sealRecord(keeper.tables, sealOfSnapshot(id), document)
  if (!(await snapshots.insert({ id, document, seal, createdAtMs: keeper.nowMs })))
    throw new CraikError('conflict', `snapshot ${id} already exists`)
  return record
}

export function nameTakenError(name: string): CraikError {
  return new CraikError('conflict', `a snapshot named ${name} already exists`, {
    hint: 'choose another --name',
  })
}

/** Throws when it is not as Craik wrote it. */
export async function snapshotIn(keeper: SandboxRecords, id: string): Promise<SnapshotRecord> {
  const row = await keeper.tables.snapshots.get(id)
  if (row === undefined) throw unknownSnapshot(id)
  let status: string
  try {
    status = keeper.sealer.checkRecord(sealOfSnapshot(id), row.document, row.seal)
  } catch {
    status = 'tampered'
  }
  if (status !== 'verified') throw damagedSnapshot(id)
  return parseSnapshot(row.document)
}

/** Whoever made a snapshot may use it, export it and delete it. */
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
