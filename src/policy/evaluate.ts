/** The decision itself: a pure function of the looked-up facts and the policy text. It denies unless a rule permits. */
import { z } from 'zod'
import type { GrantOutcome } from '../receipts/schema.ts'
import { isCapability } from './capabilities.ts'
import { type CedarPolicy, type CedarVerdict, loadPolicy } from './cedar.ts'
import { capabilityName, decisionRequest, reference } from './decision-request.ts'
import type { Envelope } from './envelope.ts'
import { checkGrant, foundGrant, looksLikeReceipt } from './grant.ts'
import { PROFILES } from './profiles.ts'

/** The controls in the order in which Craik checks and reports them. */
const CONTROLS = ['policy_envelope', 'capability_grant', 'receipt', 'redaction'] as const
export type Control = (typeof CONTROLS)[number]

/** The one rule that permits because no other rule applied. Each use of it gets its own receipt. */
export const FAIL_OPEN_RULE = 'trusted-local.fail_open'

/** The rule when the policy could not be evaluated: its text is not a policy, or the engine failed. */
export const POLICY_ERROR_RULE = 'policy.error'

/** The parts of an envelope that a decision reads. */
const envelopeFacts = z.strictObject({
  id: reference,
  task_id: reference.nullable(),
  profile: z.enum(PROFILES),
  fail_open: z.boolean(),
  operators: z.array(reference),
  /** The envelope's `allowed_credential_refs`, under a name that redaction does not mask. */
  allowed_refs: z.array(reference).nullable(),
  allowed_capabilities: z.array(capabilityName).nullable(),
  denied_capabilities: z.array(capabilityName),
  approval_required: z.array(capabilityName),
  policy_digest: z.string(),
})

/** All inputs of a decision, as plain JSON. The receipt keeps them so that the decision can be replayed. */
export const decisionInput = z.strictObject({
  schema: z.literal('craik.policy_decision/1'),
  request: decisionRequest,
  envelope: envelopeFacts.nullable(),
  grant: foundGrant.nullable(),
  controls: z.strictObject({ receipt: z.boolean(), redaction: z.boolean() }),
  now_ms: z.int(),
})

export type EnvelopeFacts = z.infer<typeof envelopeFacts>
export type DecisionInput = z.infer<typeof decisionInput>

export interface Evaluation {
  readonly effect: 'allow' | 'deny'
  readonly rule: string
  readonly missing: readonly Control[]
  readonly grantOutcome: GrantOutcome
  /** True when the grant allowed the request, so that one use of it is spent. */
  readonly usesGrant: boolean
  /** True when the request is denied but a fitting grant would allow it. */
  readonly grantWouldHelp: boolean
}

/** Evaluates the policy as if the grant were usable or not. Returns `undefined` when there is no policy. */
type Ask = (grantUsable: boolean) => CedarVerdict | undefined

export async function evaluate(input: DecisionInput, policyText: string | undefined): Promise<Evaluation> {
  const ask = askOnce(input, await readable(policyText))
  const outcome = checkGrant(input.grant, input.request, input.now_ms)
  const usable = outcome === 'usable'
  const verdict = decide(input, ask, usable)
  if (verdict.effect === 'allow') {
    const grantOutcome = verdict.usesGrant ? 'usable' : 'not_required'
    return { ...verdict, missing: [], grantOutcome, grantWouldHelp: false }
  }
  const needsGrant = offersNoGrant(input) || requiresGrant(input, ask)
  return {
    ...verdict,
    missing: CONTROLS.filter((control) => {
      if (control === 'policy_envelope') return input.envelope === null
      if (control === 'capability_grant') return needsGrant && !usable
      return !input.controls[control]
    }),
    grantOutcome: input.grant !== null || needsGrant ? outcome : 'not_required',
    grantWouldHelp: !usable && decide({ ...input, grant: null }, ask, true).effect === 'allow',
  }
}

interface Verdict {
  readonly effect: 'allow' | 'deny'
  readonly rule: string
  readonly usesGrant: boolean
}

/** Applies the checks in order. The first one that denies decides. */
function decide(input: DecisionInput, ask: Ask, usable: boolean): Verdict {
  const { request, envelope, controls } = input
  const { capability, operator, credential_ref, scope } = request
  if (envelope === null) return deny('control.policy_envelope')
  if (!isCapability(capability)) return deny('capability.unknown')
  if (!envelope.operators.includes(operator)) return deny('envelope.operator')
  if (envelope.task_id !== null && envelope.task_id !== scope.task_id) return deny('envelope.task')
  if (credential_ref !== undefined && envelope.allowed_refs?.includes(credential_ref) === false) {
    return deny('envelope.credential')
  }
  if (offersNoGrant(input)) return deny('control.capability_grant')
  if (envelope.denied_capabilities.includes(capability)) return deny('envelope.denied_capability')
  if (envelope.allowed_capabilities?.includes(capability) === false) return deny('envelope.not_allowed')

  const answer = ask(usable)
  if (answer === undefined || answer.failed) return deny(POLICY_ERROR_RULE)
  if (answer.effect === 'deny') return deny(answer.rules[0] ?? 'default_deny')
  const approval = envelope.approval_required.includes(capability)
  if (approval && !usable) return deny('envelope.approval_required')
  if (!controls.receipt) return deny('control.receipt')
  if (!controls.redaction) return deny('control.redaction')

  // If a permit also applies without the grant, the grant was not needed and is not spent.
  const free = usable ? ask(false) : answer
  const rule = free?.effect === 'allow' ? answer.rules.find((id) => free.rules.includes(id)) : undefined
  return {
    effect: 'allow',
    rule: rule ?? answer.rules[0]!,
    usesGrant: usable && (approval || rule === undefined),
  }
}

function deny(rule: string): Verdict {
  return { effect: 'deny', rule, usesGrant: false }
}

/**
 * Returns whether the offered id names a receipt or nothing. Such a request is denied even where no grant is needed.
 */
function offersNoGrant({ grant, request }: DecisionInput): boolean {
  if (grant === null) return false
  return grant.found !== 'grant' || grant.id !== request.grant_id || looksLikeReceipt(grant.id)
}

/** A grant counts as required when the policy is unknown. */
function requiresGrant({ envelope, request }: DecisionInput, ask: Ask): boolean {
  if (envelope === null || !isCapability(request.capability)) return true
  return envelope.approval_required.includes(request.capability) || ask(false)?.effect !== 'allow'
}

function askOnce({ request, envelope, now_ms }: DecisionInput, policy: CedarPolicy | undefined): Ask {
  if (policy === undefined || envelope === null) return () => undefined
  const answers = new Map<boolean, CedarVerdict | undefined>()
  return (usable) => {
    if (!answers.has(usable)) answers.set(usable, askPolicy(policy, request, envelope, now_ms, usable))
    return answers.get(usable)
  }
}

function askPolicy(
  policy: CedarPolicy,
  { operator, capability, target, operation, path, repo, scope }: DecisionInput['request'],
  { id, profile, fail_open, task_id }: EnvelopeFacts,
  nowMs: number,
  usable: boolean,
): CedarVerdict | undefined {
  const context = {
    operation,
    now_ms: nowMs,
    ...(path !== undefined && { path }),
    ...(repo !== undefined && { repo }),
    ...dropUndefined(scope),
    grant: { usable },
    envelope: { id, profile, fail_open, ...(task_id !== null && { task_id }) },
  }
  try {
    return policy.decide({ operator, capability, target, context })
  } catch {
    // The engine itself failed. Without an answer the request is denied.
    return undefined
  }
}

function dropUndefined(scope: DecisionInput['request']['scope']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(scope).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
}

/** Returns `undefined` for a text that is not a policy, so that the request is denied. */
async function readable(policyText: string | undefined): Promise<CedarPolicy | undefined> {
  if (policyText === undefined) return undefined
  try {
    return await loadPolicy(policyText)
  } catch {
    return undefined
  }
}

export function factsOfEnvelope(envelope: Envelope): EnvelopeFacts {
  return {
    id: envelope.id,
    task_id: envelope.task_id,
    profile: envelope.profile,
    fail_open: envelope.fail_open,
    operators: [...new Set([envelope.actor, ...envelope.allowed_operators])],
    allowed_refs: envelope.allowed_credential_refs,
    allowed_capabilities: envelope.allowed_capabilities,
    denied_capabilities: envelope.denied_capabilities,
    approval_required: envelope.approval_required,
    policy_digest: envelope.policy_digest,
  }
}
