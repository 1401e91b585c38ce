import { expect, test } from 'vitest'
import { CAPABILITY_NAMES, type Capability } from './capabilities.ts'
import { evaluate } from './evaluate.ts'
import { type BuiltIn, envelopeFor, START_MS } from './policy.fixture.ts'
import { builtInText } from './profiles.ts'
import { runSelfChecks } from './self-checks.ts'
import { type TrialGrant, trialInput } from './trial.ts'

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
/** Unattended work never changes what later work may do. */
const AUTOMATION_UNHEARD: Capability[] = [
  'secret.write',
  'grant.write',
  'command.write',
  'provider.write',
  'budget.write',
  'receipts.rotate_key',
]

const except = (...taken: Capability[][]) => CAPABILITY_NAMES.filter((name) => !taken.flat().includes(name))

/** Capabilities, without a grant, with one that fits. Together the lists of a profile name every capability. */
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

async function decided(profile: BuiltIn, capability: Capability, grant: TrialGrant): Promise<string> {
  const input = trialInput(await envelopeFor(profile), capability, grant, START_MS)
  const { effect, rule } = await evaluate(input, builtInText(profile))
  return `${effect} ${rule}`
}

for (const [profile, rows] of Object.entries(TABLE) as [BuiltIn, (typeof TABLE)[BuiltIn]][]) {
  test(`the table of ${profile} names every capability once`, () => {
    expect(rows.flatMap(([names]) => names).sort()).toEqual([...CAPABILITY_NAMES].sort())
  })
  const cases = rows.flatMap(([names, bare, granted]) => names.map((name) => [name, bare, granted] as const))
  test.each(cases)(`${profile}: %s without a grant: %s; with one: %s`, async (capability, bare, granted) => {
    expect(await decided(profile, capability, 'none')).toBe(bare)
    expect(await decided(profile, capability, 'fitting')).toBe(granted)
    // A grant that does not fit is worth nothing.
    expect(await decided(profile, capability, 'expired')).toBe(bare)
    expect(await decided(profile, capability, 'used_up')).toBe(bare)
  })
  test(`${profile} keeps its own promises`, async () => {
    const checks = await runSelfChecks(await envelopeFor(profile), builtInText(profile), START_MS)
    expect(checks.filter(({ passed }) => !passed)).toEqual([])
    expect(checks.length).toBeGreaterThanOrEqual(12)
  })
}

test('automation denies everything in an envelope that fails open', async () => {
  for (const capability of CAPABILITY_NAMES) {
    const input = trialInput(await envelopeFor('automation'), capability, 'fitting', START_MS)
    const opened = { ...input, envelope: { ...input.envelope!, fail_open: true } }
    expect(await evaluate(opened, builtInText('automation'))).toMatchObject({ effect: 'deny' })
  }
})

test('the self checks fail on a policy that permits too much', async () => {
  const text = '@id("strict.reads") permit (principal, action, resource);'
  const checks = await runSelfChecks(await envelopeFor('strict'), text, START_MS)
  expect(checks.filter(({ passed }) => !passed).map(({ name }) => name)).toContain(
    'no grant can allow shell.execute',
  )
})
