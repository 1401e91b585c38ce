/** One decision about a sandbox, inside a transaction: the grant is looked up, policy judges, the receipt is written. */
import type { Owner } from '../../lib/owner.ts'
import type { Capability } from '../../policy/capabilities.ts'
import type { DecisionRequest } from '../../policy/decision-request.ts'
import { usableGrant } from '../../policy/find-grant.ts'
import {
  decideRequest,
  type PolicyDecision,
  plainJson,
  record as recordDecision,
} from '../../policy/policy-decision.ts'
import type { EffectReceipt } from '../../policy/tokens.ts'
import type { Begin } from '../../receipts/receipt-log.ts'
import type { RecordedBegin, SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { Begun, Denied } from './tokens.ts'

/** How receipts name the kind of place, as the catalogue of backends does. */
const BACKEND_IDS = { process: 'sandbox_local_process', docker: 'sandbox_container' } as const

export interface SandboxDecisionRequest {
  readonly operator: string
  readonly capability: Capability
  readonly operation: string
  readonly target: string
  /** A folder of this machine, without links in it. */
  readonly path?: string | undefined
  readonly policyEnvelopeId: string
  readonly grantId?: string | undefined
  /** Tried before others are looked for. */
  readonly ownGrantId?: string | undefined
  /** False: a grant is not looked for. */
  readonly lookUp?: boolean
}

export interface EvaluatedRequest {
  readonly asked: DecisionRequest
  readonly decision: PolicyDecision
  readonly isAllowed: boolean
}

/** Spends and writes nothing yet. */
export async function evaluateSandbox(
  records: SandboxRecords,
  sidecarRequest: SandboxDecisionRequest,
): Promise<EvaluatedRequest> {
  const {
    operator,
    capability,
    operation,
    target,
    path,
    policyEnvelopeId,
    grantId,
    ownGrantId,
    lookUp = true,
  } = sidecarRequest
  const request = {
    operator,
    capability,
    operation,
    target,
    ...(path !== undefined && { path }),
    scope: {},
    policy_envelope_id: policyEnvelopeId,
  }
  const grant =
    grantId ?? (lookUp ? await usableGrant(records.tables, request, records.nowMs, ownGrantId) : undefined)
  const requested: DecisionRequest = { ...request, ...(grant !== undefined && { grant_id: grant }) }
  const decision = await decideRequest(records.tables, requested, records.clock)
  return { asked: requested, decision, isAllowed: decision.evaluation.effect === 'allow' }
}

/** The question that an operation on a sandbox asks. */
export function requestAbout(
  { id, operator: owner, policy_envelope_id, owner_grants }: SandboxRecord,
  { capability, operation }: { readonly capability: Capability; readonly operation: string },
  { operator, grantId }: { readonly operator: string; readonly grantId?: string },
): SandboxDecisionRequest {
  return {
    operator,
    capability,
    operation,
    target: `sandbox/${id}`,
    policyEnvelopeId: policy_envelope_id,
    grantId,
    ownGrantId: operator === owner ? owner_grants[capability] : undefined,
  }
}

/** Spends the grant and writes the begin, or the denial. */
export async function commitDecision(
  { tables, sealer }: SandboxRecords,
  { asked: requested, decision }: EvaluatedRequest,
  receipt: Omit<EffectReceipt, 'kind'>,
  owner: Owner,
): Promise<Denied | { readonly effect: 'allowed'; readonly begun: Begun }> {
  const effect = { ...receipt, kind: 'sandbox_action' as const }
  const { evaluation, ref, begin, profile } = await recordDecision(tables, decision, effect, owner, sealer)
  if (begin === undefined)
    return { effect: 'denied', ref, asked: requested, evaluation, ...(profile && { profile }) }
  const epoch = receipt.metadata?.epoch
  return {
    effect: 'allowed',
    begun: { id: ref.id, begin: toRecordedBegin(begin), epoch: typeof epoch === 'string' ? epoch : null },
  }
}

/** What a receipt about a sandbox links to. */
export function sandboxLinks({ id, backend }: Pick<SandboxRecord, 'id' | 'backend'>): Begin['links'] {
  return { sandbox_id: id, backend_id: BACKEND_IDS[backend] }
}

/** What an end says again. */
function toRecordedBegin({ operator, capability, operation, target, links }: Begin): RecordedBegin {
  return plainJson({ kind: 'sandbox_action', operator, capability, operation, target, links }) as never
}
