/** One decision about a sandbox in a transaction: looks up the grant, evaluates policy and writes the receipt. */
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

/** The names of the backends in receipts, as in the catalogue of backends. */
const BACKEND_IDS = { process: 'sandbox_local_process', docker: 'sandbox_container' } as const

export interface SandboxDecisionRequest {
  readonly operator: string
  readonly capability: Capability
  readonly operation: string
  readonly target: string
  /** A folder of the host, without symbolic links in its path. */
  readonly path?: string | undefined
  readonly policyEnvelopeId: string
  readonly grantId?: string | undefined
  /** A grant to try before others are looked up. */
  readonly ownGrantId?: string | undefined
  /** If false, no grant is looked up. */
  readonly lookUp?: boolean
}

export interface EvaluatedRequest {
  readonly asked: DecisionRequest
  readonly decision: PolicyDecision
  readonly isAllowed: boolean
}

/** Evaluates a request. It spends no grant and writes nothing yet. */
export async function evaluateSandbox(
  records: SandboxRecords,
  policyRequest: SandboxDecisionRequest,
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
  } = policyRequest
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

/** Returns the policy request for an operation on a sandbox. */
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

/** Spends a use of the grant and writes the begin receipt, or writes the denial. */
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

/** Returns the links of a receipt about a sandbox. */
export function sandboxLinks({ id, backend }: Pick<SandboxRecord, 'id' | 'backend'>): Begin['links'] {
  return { sandbox_id: id, backend_id: BACKEND_IDS[backend] }
}

/** Returns the part of a begin receipt that the end receipt repeats. */
function toRecordedBegin({ operator, capability, operation, target, links }: Begin): RecordedBegin {
  return plainJson({ kind: 'sandbox_action', operator, capability, operation, target, links }) as never
}
