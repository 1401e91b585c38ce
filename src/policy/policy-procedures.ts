/** Policy in the writer thread: one transaction looks up, decides, spends a grant and writes the receipt. */
import { CraikError } from '../errors.ts'
import { canonicalJson } from '../lib/canonical-json.ts'
import type { Clock } from '../lib/clock.ts'
import type { EnvelopeId } from '../lib/ids.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import type { Procedures, Tables } from '../store/store.ts'
import { loadEngine, loadPolicy, policyDigest } from './cedar.ts'
import { parseInput } from './decision-request.ts'
import {
  type Envelope,
  envelopeSchema,
  parseEnvelope,
  requireNoSecrets,
  type StoredEnvelope,
  sameEnvelope,
} from './envelope.ts'
import { createGrantIn, revokeGrantIn } from './grant-procedures.ts'
import { decideRequest, plainJson, record } from './policy-decision.ts'
import { readBuiltInPolicy } from './profiles.ts'
import {
  type CreateEnvelopeInput,
  type CreateGrantInput,
  createEnvelopeProcedure,
  createGrantProcedure,
  type DecideInput,
  type DecideOutput,
  decideProcedure,
  prepareProcedure,
  revokeGrantProcedure,
} from './tokens.ts'

export function policyProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    [prepareProcedure.name]: async () => {
      await loadEngine()
      return null
    },
    [decideProcedure.name]: (tables: Tables, input: DecideInput) => decideIn(tables, input, receipts, clock),
    [createEnvelopeProcedure.name]: (tables: Tables, input: CreateEnvelopeInput) =>
      insertEnvelope(tables, input, receipts),
    [createGrantProcedure.name]: (tables: Tables, input: CreateGrantInput) =>
      createGrantIn(tables, input, receipts, clock),
    [revokeGrantProcedure.name]: (
      tables: Tables,
      input: { readonly id: string; readonly operator: string },
    ) => revokeGrantIn(tables, input, receipts, clock),
  }
}

/** Decides inside a transaction. Procedures of other modules include it in theirs. */
export async function decideIn(
  tables: Tables,
  { request, receipt, owner }: DecideInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<DecideOutput> {
  return record(tables, await decideRequest(tables, request, clock), receipt, owner, receipts)
}

export async function insertEnvelope(
  tables: Tables,
  { envelope: provided, policyText, operator, receipt = false }: CreateEnvelopeInput,
  receipts: ReceiptWriter,
): Promise<StoredEnvelope> {
  const envelope = parseInput(envelopeSchema, provided, 'the policy envelope')
  requireNoSecrets(envelope)
  await requireRightText(envelope, policyText)
  const row = await tables.envelopes.get(envelope.id)
  const existing = row && parseEnvelope(row.id, row.document)
  if (existing !== undefined && !sameEnvelope(existing, envelope)) {
    throw new CraikError('conflict', `policy envelope ${envelope.id} already exists with different terms`, {
      hint: 'use another --task-id: envelopes never change',
    })
  }
  if (existing === undefined) {
    await tables.documents.put({ digest: envelope.policy_digest, mediaType: 'text/cedar', text: policyText })
    await tables.envelopes.insert({
      id: envelope.id as EnvelopeId,
      document: canonicalJson(plainJson(envelope)),
      createdAtMs: Date.parse(envelope.created_at),
    })
  }
  const stored = { envelope: existing ?? envelope, created: existing === undefined }
  const due = receipt || (envelope.fail_open && stored.created)
  return due
    ? { ...stored, receipt: await receipts.append(tables, envelopeReceipt(envelope, operator)) }
    : stored
}

/** Throws unless an envelope of a built-in profile was created with the policy text that ships with Craik. */
async function requireRightText(envelope: Envelope, policyText: string): Promise<void> {
  const shipped = envelope.profile === 'custom' ? policyText : readBuiltInPolicy(envelope.profile)
  if (shipped !== policyText || policyDigest(policyText) !== envelope.policy_digest) {
    throw new CraikError(
      'conflict',
      `policy envelope ${envelope.id} does not have the policy text of its profile ${envelope.profile}`,
      { hint: `create another policy envelope:  craik policy show --profile ${envelope.profile}` },
    )
  }
  await loadPolicy(policyText)
}

function envelopeReceipt(envelope: Envelope, operator: string): ReceiptDraft {
  return {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: envelope.fail_open ? 'policy.fail_open' : 'policy.envelope',
    operation: 'create',
    target: envelope.id,
    links: {
      policy_envelope_id: envelope.id,
      ...(envelope.task_id !== null && { task_id: envelope.task_id }),
    },
    digests: { policy: envelope.policy_digest },
    metadata: { profile: envelope.profile, fail_open: envelope.fail_open, actor: envelope.actor },
  }
}
