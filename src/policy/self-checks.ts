/** The checks of `craik policy test`: the guarantees of every profile, then those of the selected one. */
import { checkPolicyText } from './cedar.ts'
import type { Envelope } from './envelope.ts'
import { type DecisionInput, evaluate, FAIL_OPEN_RULE } from './evaluate.ts'
import type { PolicyProfile } from './profiles.ts'
import { type TrialGrant, trialInput } from './try-policy.ts'

export interface CheckResult {
  readonly name: string
  readonly passed: boolean
  /** `deny by strict.never` */
  readonly outcome: string
}

interface Check {
  readonly name: string
  readonly capability: string
  readonly grant: TrialGrant
  readonly expect: 'allow' | 'deny'
  /** Set when only this rule can decide. */
  readonly rule?: string
  readonly change?: (input: DecisionInput) => DecisionInput
}

export async function runSelfChecks(
  envelope: Envelope,
  policyText: string,
  nowMs: number,
): Promise<CheckResult[]> {
  const problems = (await checkPolicyText(policyText)).filter(({ severity }) => severity === 'error').length
  const results: CheckResult[] = [
    { name: 'the policy matches the schema', passed: problems === 0, outcome: `${problems} errors` },
  ]
  for (const check of [...COMMON, ...CHECKS[envelope.profile]]) {
    const input = trialInput(envelope, check.capability, check.grant, nowMs)
    const { effect, rule } = await evaluate(check.change?.(input) ?? input, policyText)
    const passed = effect === check.expect && (check.rule === undefined || check.rule === rule)
    results.push({ name: check.name, passed, outcome: `${effect} by ${rule}` })
  }
  return results
}

const allow = (name: string, capability: string, grant: TrialGrant, rule?: string): Check => ({
  name,
  capability,
  grant,
  expect: 'allow',
  ...(rule && { rule }),
})
const deny = (name: string, capability: string, grant: TrialGrant, rule?: string): Check => ({
  ...allow(name, capability, grant, rule),
  expect: 'deny',
})

const COMMON: readonly Check[] = [
  {
    ...deny('nothing is allowed without an envelope', 'repo.read', 'fitting', 'control.policy_envelope'),
    change: (input) => ({ ...input, envelope: null }),
  },
  deny('an undeclared capability is denied', 'made.up', 'fitting', 'capability.unknown'),
  deny('a receipt is not a grant', 'repo.read', 'receipt', 'control.capability_grant'),
  deny('a grant that does not exist is denied', 'repo.read', 'nonexistent', 'control.capability_grant'),
  {
    ...deny('another operator cannot use the envelope', 'repo.read', 'none', 'envelope.operator'),
    change: (input) => ({ ...input, request: { ...input.request, operator: 'someone:else' } }),
  },
  {
    ...deny('a denial by the envelope is final', 'repo.read', 'fitting', 'envelope.denied_capability'),
    change: (input) => ({
      ...input,
      envelope: input.envelope && { ...input.envelope, denied_capabilities: ['repo.read'] },
    }),
  },
]

const CHECKS: Readonly<Record<PolicyProfile, readonly Check[]>> = {
  strict: [
    allow('reading needs no grant', 'repo.read', 'none', 'strict.reads'),
    deny('writing documentation needs a grant', 'repo.write.docs', 'none'),
    allow('writing documentation is allowed with one', 'repo.write.docs', 'fitting', 'strict.granted'),
    deny('an expired grant has no effect', 'repo.write.docs', 'expired'),
    deny('a grant without uses left has no effect', 'repo.write.docs', 'used_up'),
    deny('no grant can allow shell.execute', 'shell.execute', 'fitting', 'strict.never'),
    deny('no grant can allow memory.write', 'memory.write', 'fitting', 'strict.never'),
  ],
  'trusted-local': [
    allow('reading needs no grant', 'repo.read', 'none', 'trusted-local.reads'),
    allow('requests that no rule decides fail open', 'shell.execute', 'none', FAIL_OPEN_RULE),
    allow('a grant is used rather than failing open', 'shell.execute', 'fitting', 'trusted-local.granted'),
    deny('immutable files do not fail open', 'repo.write.immutable', 'none', 'default_deny'),
    deny('secrets do not fail open', 'secret.use', 'expired', 'default_deny'),
    deny('the log’s keys do not fail open', 'receipts.rotate_key', 'none', 'default_deny'),
  ],
  automation: [
    allow('reading needs no grant', 'repo.read', 'none', 'automation.reads'),
    deny('running a command needs a grant', 'shell.execute', 'none', 'default_deny'),
    allow('running a command is allowed with one', 'shell.execute', 'fitting', 'automation.granted'),
    deny('an expired grant has no effect', 'shell.execute', 'expired', 'default_deny'),
    deny('the operator’s own shell is denied', 'shell.operator', 'fitting', 'automation.never'),
    {
      ...deny('it never fails open', 'repo.read', 'fitting', 'automation.never_fail_open'),
      change: (input) => ({ ...input, envelope: input.envelope && { ...input.envelope, fail_open: true } }),
    },
  ],
  custom: [],
}
