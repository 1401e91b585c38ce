/** The failover policy: which provider replaces which, on which failures. */
import { z } from 'zod'
import type { CraikError } from '../../errors.ts'
import { reference } from '../../policy/decision-request.ts'
import { redactValue } from '../../receipts/redaction/redact.ts'
import type { Home } from '../../store/home.ts'
import { FAILURE_KINDS } from '../adapters/adapter.ts'
import { MAX_COOLDOWN_MS } from '../breaker/breaker-state.ts'
import { invalidConfig, readConfigFile } from '../config-file.ts'

const FILES = ['failover.json', 'failover.yaml', 'failover.yml'] as const

const ruleFailure = z
  .enum(FAILURE_KINDS)
  .refine(
    (kind): boolean => kind !== 'cancelled',
    'must not contain cancelled: nobody waits for a cancelled call',
  )

/** Failures that are independent of the request, so that another provider may serve it. */
const DEFAULT_FAILURES = ['unreachable', 'timeout', 'rate_limited', 'overloaded', 'server_error'] as const

const MAX_RULES = 100

const failoverRule = z.strictObject({
  from_provider_id: reference,
  to_provider_id: reference,
  on: z
    .array(ruleFailure)
    .min(1)
    .max(FAILURE_KINDS.length)
    .default([...DEFAULT_FAILURES]),
  reason: z.string().min(1).max(200).default('configured'),
  requires_receipt: z.literal(true, 'must be true: every failover has a receipt').default(true),
})

const failoverPolicy = z
  .strictObject({
    schema: z.literal('craik.provider_failover').optional(),
    version: z.literal('0.1.0').optional(),
    id: reference,
    rules: z.array(failoverRule).max(MAX_RULES),
    denied_provider_ids: z.array(reference).max(MAX_RULES).default([]),
    stop_reasons: z.array(z.enum(FAILURE_KINDS)).max(FAILURE_KINDS.length).default([]),
    policy_envelope_id: reference.optional(),
    /** The first cooldown of a provider that failed too often. */
    cooldown_ms: z.int().min(100).max(MAX_COOLDOWN_MS).optional(),
  })
  .superRefine((policy, context) => {
    for (const [i, rule] of policy.rules.entries()) {
      if (rule.from_provider_id !== rule.to_provider_id) continue
      context.addIssue({
        code: 'custom',
        path: ['rules', i, 'to_provider_id'],
        message: 'must not be the provider that failed',
      })
    }
  })

export type FailoverRule = z.infer<typeof failoverRule>
export type FailoverPolicy = z.infer<typeof failoverPolicy>

/**
 * Returns the home's failover policy, checked against the existing providers. `undefined` when the home has no policy
 * file.
 */
export async function loadFailoverPolicy(
  home: Home,
  providerIds: readonly string[],
): Promise<FailoverPolicy | undefined> {
  const found: { readonly name: string; readonly value: unknown }[] = []
  for (const name of FILES) {
    const value = await readConfigFile(home.config, name)
    if (value !== undefined) found.push({ name, value })
  }
  const [first, second] = found
  if (second !== undefined)
    throw invalidConfig(second.name, `conflicts with config/${first!.name}`, 'remove one of them')
  return first && parseFailoverPolicy(first.value, providerIds, first.name)
}

function parseFailoverPolicy(input: unknown, providerIds: readonly string[], name: string): FailoverPolicy {
  const parsed = failoverPolicy.safeParse(input)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    throw complaint(name, issue.path.join('.'), issue.message)
  }
  const policy = parsed.data
  const secret = secretIn(policy)
  if (secret !== undefined) throw complaint(name, secret, 'looks like a secret')
  const known = new Set(providerIds)
  const unknown = listNamedProviders(policy).find(({ id }) => !known.has(id))
  if (unknown !== undefined)
    throw complaint(name, unknown.field, `unknown provider ${unknown.id}; see: craik provider list`)
  return policy
}

function complaint(name: string, field: string, problem: string): CraikError {
  return invalidConfig(
    name,
    `${field && `${field}: `}${problem}`,
    'fix the file, then check it:  craik provider failover show',
  )
}

function secretIn({ rules, ...rest }: FailoverPolicy): string | undefined {
  const texts = [
    ...Object.entries(rest).flatMap(([field, value]) => [value].flat().map((text) => ({ field, text }))),
    ...rules.flatMap((rule, i) =>
      Object.entries(rule).map(([field, text]) => ({ field: `rules.${i}.${field}`, text })),
    ),
  ]
  return texts.find(({ text }) => redactValue(text).redacted)?.field
}

function listNamedProviders({ rules, denied_provider_ids }: FailoverPolicy): { id: string; field: string }[] {
  return [
    ...rules.flatMap(({ from_provider_id, to_provider_id }, i) => [
      { id: from_provider_id, field: `rules.${i}.from_provider_id` },
      { id: to_provider_id, field: `rules.${i}.to_provider_id` },
    ]),
    ...denied_provider_ids.map((id, i) => ({ id, field: `denied_provider_ids.${i}` })),
  ]
}
