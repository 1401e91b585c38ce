/**
 * Checks whether a sandbox request is complete and safe enough to evaluate with the policy. A pure function of the
 * facts.
 */
import { z } from 'zod'
import { capabilityName, reference, scopeIds } from '../policy/decision-request.ts'
import { decisionInput } from '../policy/evaluate.ts'
import type { GrantOutcome } from '../receipts/schema.ts'
import { BACKEND_KINDS, ISOLATIONS } from './backend.ts'

/** In the order of the checks. Every sandbox action requires all of them. */
export const REQUIRED_CONTROLS = ['policy_envelope', 'capability_grant', 'receipt', 'redaction'] as const
export type SandboxControl = (typeof REQUIRED_CONTROLS)[number]

/** In the order of the checks. The first one that fails is the answer. */
const REASONS = {
  'sandbox.kind': 'the backend and the request are of different kinds',
  'sandbox.backend': 'the request names an unknown backend',
  'sandbox.target': 'a remote command needs a target with references to its host, user and port',
  'sandbox.capability': 'the backend does not support the requested capability and operation',
  'sandbox.privileged': 'a container cannot be privileged',
  'sandbox.network': 'a container cannot join the bridge network',
  'sandbox.mount': 'a container cannot have a writable mount',
  'sandbox.auth': 'a remote command needs the name of its login',
  'sandbox.policy': 'a policy envelope is required',
  'sandbox.policy_unknown': 'the policy envelope does not exist',
  'sandbox.grant': 'a capability grant is required',
  'sandbox.grant_unknown': 'the capability grant does not exist',
  'sandbox.grant_is_receipt': 'the capability grant is a receipt, and a receipt grants nothing',
  'sandbox.receipt': 'a receipt is required',
  'sandbox.receipt_unknown': 'the receipt is not in the log',
  'sandbox.inline_command': 'inline shell is not allowed: name a registered command',
  'sandbox.command_unknown': 'no command is registered under this reference',
  'sandbox.isolation': 'this machine does not support the requested isolation',
} as const

type SandboxRule = keyof typeof REASONS

/** The action: a registered command by reference, or an inline command. */
const action = z.discriminatedUnion('form', [
  z.strictObject({ form: z.literal('reference'), ref: reference, registered: z.boolean() }),
  z.strictObject({ form: z.literal('inline') }),
])

const specifics = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('local_process'),
    isolation: z.enum(['process', 'none']),
    /** The strongest isolation that this host supports. */
    reachable: z.enum(ISOLATIONS),
  }),
  z.strictObject({
    kind: z.literal('remote_shell'),
    target: z.strictObject({ id: reference, complete: z.boolean(), login: z.boolean() }).nullable(),
  }),
  z.strictObject({
    kind: z.literal('container'),
    network_mode: z.enum(['none', 'bridge', 'restricted']),
    writable_mounts: z.int().nonnegative(),
    privileged: z.boolean(),
  }),
  z.strictObject({ kind: z.literal('browser_tool') }),
])

/** Everything that the decision depends on. The receipt contains it, so that a replay can repeat the decision. */
export const sandboxFacts = z.strictObject({
  schema: z.literal('craik.sandbox_decision/1'),
  request: z.strictObject({
    backend_id: reference,
    capability: capabilityName,
    operation: reference,
    operator: reference,
    scope: scopeIds,
    policy_envelope_id: reference.optional(),
    capability_grant_id: reference.optional(),
    receipt_id: reference.optional(),
  }),
  specifics,
  action,
  found: z.strictObject({
    backend: z
      .strictObject({
        kind: z.enum(BACKEND_KINDS),
        capabilities: z.array(z.strictObject({ name: capabilityName, operations: z.array(reference) })),
      })
      .nullable(),
    envelope: z.boolean(),
    grant: z.enum(['grant', 'receipt', 'nothing']),
    receipt: z.boolean(),
  }),
  /** The request to the policy, after all checks above succeeded. */
  policy: decisionInput.nullable(),
})

export type SandboxFacts = z.infer<typeof sandboxFacts>

export interface SandboxRefusal {
  readonly rule: SandboxRule
  readonly reason: string
  readonly missing: readonly SandboxControl[]
  readonly grantOutcome?: GrantOutcome
}

/** Returns the first check that fails. `undefined` when the policy may evaluate the request. */
export function evaluateSandboxRequest(facts: SandboxFacts): SandboxRefusal | undefined {
  const rule = findBrokenRule(facts)
  if (rule === undefined) return undefined
  const outcome = GRANT_OUTCOME_OF[rule]
  return {
    rule,
    reason: REASONS[rule],
    missing: MISSING_OF[rule] ?? [],
    ...(outcome && { grantOutcome: outcome }),
  }
}

function findBrokenRule({
  request,
  specifics: requested,
  action,
  found,
}: SandboxFacts): SandboxRule | undefined {
  const { backend } = found
  if (backend !== null && backend.kind !== requested.kind) return 'sandbox.kind'
  if (backend === null) return 'sandbox.backend'
  if (requested.kind === 'remote_shell' && !requested.target?.complete) return 'sandbox.target'
  const offered = backend.capabilities.find(({ name }) => name === request.capability)
  if (!offered?.operations.includes(request.operation)) return 'sandbox.capability'
  if (requested.kind === 'container') {
    if (requested.privileged) return 'sandbox.privileged'
    if (requested.network_mode === 'bridge') return 'sandbox.network'
    if (requested.writable_mounts > 0) return 'sandbox.mount'
  }
  if (requested.kind === 'remote_shell' && !requested.target?.login) return 'sandbox.auth'
  if (request.policy_envelope_id === undefined) return 'sandbox.policy'
  if (!found.envelope) return 'sandbox.policy_unknown'
  if (request.capability_grant_id === undefined) return 'sandbox.grant'
  if (found.grant === 'receipt') return 'sandbox.grant_is_receipt'
  if (found.grant === 'nothing') return 'sandbox.grant_unknown'
  if (request.receipt_id === undefined) return 'sandbox.receipt'
  if (!found.receipt) return 'sandbox.receipt_unknown'
  if (action.form === 'inline') return 'sandbox.inline_command'
  if (!action.registered) return 'sandbox.command_unknown'
  if (
    requested.kind === 'local_process' &&
    requested.isolation === 'process' &&
    requested.reachable !== 'process'
  ) {
    return 'sandbox.isolation'
  }
  return undefined
}

const MISSING_OF: Readonly<Partial<Record<SandboxRule, readonly SandboxControl[]>>> = {
  'sandbox.policy': ['policy_envelope'],
  'sandbox.policy_unknown': ['policy_envelope'],
  'sandbox.grant': ['capability_grant'],
  'sandbox.grant_unknown': ['capability_grant'],
  'sandbox.grant_is_receipt': ['capability_grant'],
  'sandbox.receipt': ['receipt'],
  'sandbox.receipt_unknown': ['receipt'],
}

const GRANT_OUTCOME_OF: Readonly<Partial<Record<SandboxRule, GrantOutcome>>> = {
  'sandbox.grant': 'missing',
  'sandbox.grant_unknown': 'missing',
  'sandbox.grant_is_receipt': 'not_a_grant',
}

/** Returns the target for the receipt: the command by reference, or otherwise the backend. */
export function receiptTarget({ action, request }: Pick<SandboxFacts, 'action' | 'request'>): string {
  return `sandbox_action:${action.form === 'reference' ? action.ref : request.backend_id}`
}
