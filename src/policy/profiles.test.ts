import { expect, test } from 'vitest'
import { CAPABILITY_NAMES, type Capability } from './capabilities.ts'
import { evaluate } from './evaluate.ts'
import { type BuiltIn, envelopeFor, START_MS } from './policy.fixture.ts'
import { readBuiltInPolicy } from './profiles.ts'
import { runSelfChecks } from './self-checks.ts'
import { type TrialGrant, trialInput } from './try-policy.ts'

const READS: Capability[] = ['repo.read', 'memory.read', 'receipt.write']
const SHELL: Capability[] = ['shell.operator']
const STRICT_NEVER: Capability[] = [
  'repo.write',
  'repo.write.immutable',
  'shell.execute',
  'git.mutate',
  'github.write',
  'memory.write',
]
const HARD: Capability[] = [
  'repo.write.immutable',
  'receipts.rotate_key',
  'secret.use',
  'secret.write',
  'login.use',
  'sandbox.mount',
  'grant.write',
  'command.write',
  'provider.write',
  'budget.write',
]
const AUTOMATION_NEVER: Capability[] = [
  'shell.operator',
  'git.mutate',
  'github.write',
  'memory.write',
  'repo.write.immutable',
]
/** Unattended work must never change what later work is allowed to do. */
const AUTOMATION_UNHEARD: Capability[] = [
  'secret.write',
  'grant.write',
  'command.write',
  'provider.write',
  'budget.write',
  'receipts.rotate_key',
]

const except = (...taken: Capability[][]) => CAPABILITY_NAMES.filter((name) => !taken.flat().includes(name))

/**
 * Capabilities, the decision without a grant, and the decision with a fitting one. The lists of a profile together name
 * every capability.
 */
const TABLE: Record<BuiltIn, [readonly Capability[], string, string][]> = {
  strict: [
    [READS, 'allow strict.reads', 'allow strict.reads'],
    [SHELL, 'allow strict.operator_shell', 'allow strict.operator_shell'],
    [STRICT_NEVER, 'deny strict.never', 'deny strict.never'],
    [except(READS, SHELL, STRICT_NEVER), 'deny default_deny', 'allow strict.granted'],
  ],
  'trusted-local': [
    [READS, 'allow trusted-local.reads', 'allow trusted-local.reads'],
    [SHELL, 'allow trusted-local.operator_shell', 'allow trusted-local.operator_shell'],
    [HARD, 'deny default_deny', 'allow trusted-local.granted'],
    [except(READS, SHELL, HARD), 'allow trusted-local.fail_open', 'allow trusted-local.granted'],
  ],
  automation: [
    [READS, 'allow automation.reads', 'allow automation.reads'],
    [AUTOMATION_NEVER, 'deny automation.never', 'deny automation.never'],
    [AUTOMATION_UNHEARD, 'deny default_deny', 'deny default_deny'],
    [except(READS, AUTOMATION_NEVER, AUTOMATION_UNHEARD), 'deny default_deny', 'allow automation.granted'],
  ],
}

async function decide(profile: BuiltIn, capability: Capability, grant: TrialGrant): Promise<string> {
  const input = trialInput(await envelopeFor(profile), capability, grant, START_MS)
  const { effect, rule } = await evaluate(input, readBuiltInPolicy(profile))
  return `${effect} ${rule}`
}

for (const [profile, rows] of Object.entries(TABLE) as [BuiltIn, (typeof TABLE)[BuiltIn]][]) {
  test(`names every capability once in the table of ${profile}`, () => {
    expect(rows.flatMap(([names]) => names).sort()).toEqual([...CAPABILITY_NAMES].sort())
  })
  const cases = rows.flatMap(([names, bare, granted]) => names.map((name) => [name, bare, granted] as const))
  test.each(cases)(
    `${profile}: decides %s without a grant as %s, and with one as %s`,
    async (capability, bare, granted) => {
      expect(await decide(profile, capability, 'none')).toBe(bare)
      expect(await decide(profile, capability, 'fitting')).toBe(granted)
      // A grant that does not fit changes nothing.
      expect(await decide(profile, capability, 'expired')).toBe(bare)
      expect(await decide(profile, capability, 'used_up')).toBe(bare)
    },
  )
  test(`passes the self checks of ${profile}`, async () => {
    const checks = await runSelfChecks(await envelopeFor(profile), readBuiltInPolicy(profile), START_MS)
    expect(checks.filter(({ passed }) => !passed)).toEqual([])
    expect(checks.length).toBeGreaterThanOrEqual(12)
  })
}

test('denies everything under automation in an envelope that fails open', async () => {
  for (const capability of CAPABILITY_NAMES) {
    const input = trialInput(await envelopeFor('automation'), capability, 'fitting', START_MS)
    const opened = { ...input, envelope: { ...input.envelope!, fail_open: true } }
    expect(await evaluate(opened, readBuiltInPolicy('automation'))).toMatchObject({ effect: 'deny' })
  }
})

test('fails the self checks of a policy that permits too much', async () => {
  const text = '@id("strict.reads") permit (principal, action, resource);'
  const checks = await runSelfChecks(await envelopeFor('strict'), text, START_MS)
  expect(checks.filter(({ passed }) => !passed).map(({ name }) => name)).toContain(
    'no grant can allow shell.execute',
  )
})
