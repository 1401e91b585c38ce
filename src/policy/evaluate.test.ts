import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CAPABILITY_NAMES } from './capabilities.ts'
import { type DecisionInput, type EnvelopeFacts, evaluate } from './evaluate.ts'
import { type BuiltIn, envelopeFor, START_MS } from './policy.fixture.ts'
import { readBuiltInPolicy } from './profiles.ts'
import { type TrialGrant, trialInput } from './try-policy.ts'

const TEXTS = {
  strict: readBuiltInPolicy('strict'),
  'trusted-local': readBuiltInPolicy('trusted-local'),
  automation: readBuiltInPolicy('automation'),
}

async function input(
  capability: string,
  grant: TrialGrant,
  envelope: Partial<EnvelopeFacts> = {},
  profile: BuiltIn = 'strict',
): Promise<DecisionInput> {
  const built = trialInput(await envelopeFor(profile), capability, grant, START_MS)
  return { ...built, envelope: { ...built.envelope!, ...envelope } }
}

test('denies everything without an envelope and lists the missing controls in order', async () => {
  const bare = {
    ...(await input('repo.read', 'none')),
    envelope: null,
    controls: { receipt: false, redaction: false },
  }
  expect(await evaluate(bare, undefined)).toEqual({
    effect: 'deny',
    rule: 'control.policy_envelope',
    missing: ['policy_envelope', 'capability_grant', 'receipt', 'redaction'],
    grantOutcome: 'missing',
    usesGrant: false,
    grantWouldHelp: false,
  })
})

test.each<[string, string, TrialGrant, Partial<EnvelopeFacts>]>([
  ['envelope.operator', 'repo.read', 'fitting', { operators: ['local-user:eve'] }],
  ['envelope.task', 'repo.read', 'fitting', { task_id: 'task-2' }],
  ['envelope.denied_capability', 'repo.read', 'fitting', { denied_capabilities: ['repo.read'] }],
  ['envelope.not_allowed', 'repo.read', 'fitting', { allowed_capabilities: ['memory.read'] }],
  ['envelope.not_allowed', 'repo.read', 'fitting', { allowed_capabilities: [] }],
  ['envelope.approval_required', 'repo.read', 'none', { approval_required: ['repo.read'] }],
  ['envelope.approval_required', 'repo.read', 'expired', { approval_required: ['repo.read'] }],
  ['capability.unknown', 'repo.red', 'fitting', {}],
  ['control.capability_grant', 'repo.read', 'receipt', {}],
  ['control.capability_grant', 'repo.read', 'nonexistent', {}],
  ['strict.never', 'shell.execute', 'fitting', {}],
  ['default_deny', 'shell.test', 'none', {}],
])('%s denies %s', async (rule, capability, grant, envelope) => {
  const result = await evaluate(await input(capability, grant, envelope), TEXTS.strict)
  expect(result).toMatchObject({ effect: 'deny', rule, usesGrant: false })
})

test('denies a request without a task under a task’s envelope', async () => {
  const bound = await input('repo.read', 'none', { task_id: 'task-1' })
  const unbound = { ...bound, request: { ...bound.request, scope: {} } }
  expect(await evaluate(unbound, TEXTS.strict)).toMatchObject({ effect: 'deny', rule: 'envelope.task' })
  const free = { ...unbound, envelope: unbound.envelope && { ...unbound.envelope, task_id: null } }
  expect(await evaluate(free, TEXTS.strict)).toMatchObject({ effect: 'allow' })
})

test('never permits through an envelope’s lists what the profile denies', async () => {
  const widened = await input('shell.execute', 'fitting', { allowed_capabilities: ['shell.execute'] })
  expect(await evaluate(widened, TEXTS.strict)).toMatchObject({ effect: 'deny', rule: 'strict.never' })
})

test('requires and spends a grant where the envelope requires approval', async () => {
  const requested = await input('repo.read', 'fitting', { approval_required: ['repo.read'] })
  expect(await evaluate(requested, TEXTS.strict)).toMatchObject({
    effect: 'allow',
    rule: 'strict.reads',
    usesGrant: true,
    grantOutcome: 'usable',
  })
})

test('does not spend a grant that was not needed', async () => {
  expect(await evaluate(await input('repo.read', 'fitting'), TEXTS.strict)).toMatchObject({
    effect: 'allow',
    rule: 'strict.reads',
    usesGrant: false,
    grantOutcome: 'not_required',
  })
})

test('spends a usable grant instead of failing open', async () => {
  const result = await evaluate(
    await input('shell.execute', 'fitting', {}, 'trusted-local'),
    TEXTS['trusted-local'],
  )
  expect(result).toMatchObject({ effect: 'allow', rule: 'trusted-local.granted', usesGrant: true })
})

test.each(['receipt', 'redaction'] as const)(
  'denies an otherwise allowed request without %s',
  async (control) => {
    const allowed = await input('repo.read', 'none')
    const without = { ...allowed, controls: { ...allowed.controls, [control]: false } }
    expect(await evaluate(without, TEXTS.strict)).toMatchObject({
      effect: 'deny',
      rule: `control.${control}`,
      missing: [control],
    })
  },
)

test('reports whether a grant would help', async () => {
  const helps = async (capability: string, grant: TrialGrant) =>
    (await evaluate(await input(capability, grant), TEXTS.strict)).grantWouldHelp
  expect(await helps('shell.test', 'none')).toBe(true)
  expect(await helps('shell.test', 'expired')).toBe(true)
  expect(await helps('shell.test', 'receipt')).toBe(true)
  expect(await helps('shell.execute', 'none')).toBe(false)
  expect(await helps('shell.execute', 'fitting')).toBe(false)
})

test.each([
  ['is missing', undefined],
  ['does not parse', 'permit ('],
  ['has no names', 'permit (principal, action, resource);'],
  ['cannot be evaluated', '@id("a") permit (principal, action, resource) when { context.nothing };'],
])('denies when the policy %s', async (_, text) => {
  expect(await evaluate(await input('repo.read', 'fitting'), text)).toMatchObject({
    effect: 'deny',
    rule: 'policy.error',
  })
})

test('gives a custom policy the operation, the path, the scope and the time', async () => {
  const text = `@id("custom.narrow") permit (principal == Operator::"local-user:ada", action, resource == Target::"trial")
    when { context.operation == "try" && context has path && context.path like "docs/*" &&
           context has task_id && context.task_id == "task-1" && context.now_ms < ${START_MS + 1} };`
  const base = await input('repo.write', 'none')
  const at = (path: string, now_ms = START_MS) =>
    evaluate({ ...base, now_ms, request: { ...base.request, path } }, text)
  expect(await at('docs/a.md')).toMatchObject({ effect: 'allow', rule: 'custom.narrow' })
  expect(await at('src/a.ts')).toMatchObject({ effect: 'deny', rule: 'default_deny' })
  expect(await at('docs/a.md', START_MS + 1)).toMatchObject({ effect: 'deny' })
})

const mostly = fc.constantFrom(true, true, true, true, false)
const anyInput = fc.record({
  profile: fc.constantFrom<BuiltIn>('strict', 'trusted-local', 'automation'),
  capability: fc.oneof(fc.constantFrom<string>(...CAPABILITY_NAMES), fc.constantFrom('made.up', 'repo.red')),
  grant: fc.constantFrom<TrialGrant>('none', 'fitting', 'expired', 'used_up', 'receipt', 'nonexistent'),
  envelope: fc.record(
    {
      fail_open: fc.boolean(),
      operators: mostly.map((own) => [own ? 'local-user:ada' : 'local-user:eve']),
      denied_capabilities: fc.subarray(['repo.read', 'shell.test', 'model.chat']),
      approval_required: fc.subarray(['repo.read', 'shell.test', 'shell.operator']),
      allowed_capabilities: fc.option(fc.subarray<string>([...CAPABILITY_NAMES], { minLength: 20 })),
    },
    { requiredKeys: [] },
  ),
  controls: fc.record({ receipt: mostly, redaction: mostly }),
})

test('denies everything when every permit is removed', async () => {
  await fc.assert(
    fc.asyncProperty(anyInput, async ({ profile, capability, grant, envelope, controls }) => {
      const built = { ...(await input(capability, grant, envelope, profile)), controls }
      const onlyForbids = TEXTS[profile].replace(/\bpermit\b/g, 'forbid')
      expect((await evaluate(built, onlyForbids)).effect).toBe('deny')
      expect((await evaluate(built, '')).effect).toBe('deny')
    }),
    { numRuns: 300 },
  )
})

test('allows only with all controls, a rule of the policy and nothing missing', async () => {
  let allowed = 0
  await fc.assert(
    fc.asyncProperty(anyInput, async ({ profile, capability, grant, envelope, controls }) => {
      const built = { ...(await input(capability, grant, envelope, profile)), controls }
      const result = await evaluate(built, TEXTS[profile])
      if (result.effect === 'deny') return
      allowed++
      expect(TEXTS[profile]).toContain(`@id("${result.rule}")`)
      expect(result.missing).toEqual([])
      expect(controls).toEqual({ receipt: true, redaction: true })
      expect(built.envelope?.operators).toContain(built.request.operator)
      expect(built.envelope?.denied_capabilities).not.toContain(capability)
      expect(built.envelope?.allowed_capabilities ?? [capability]).toContain(capability)
      expect(['receipt', 'nonexistent']).not.toContain(grant)
      if (built.envelope?.approval_required.includes(capability)) expect(result.usesGrant).toBe(true)
      if (result.usesGrant) expect(grant).toBe('fitting')
    }),
    { numRuns: 2000 },
  )
  expect(allowed).toBeGreaterThan(50)
})
