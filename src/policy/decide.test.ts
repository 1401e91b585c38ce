import { expect, test } from 'vitest'
import type { InProcessStore } from '../../test/in-process-store.ts'
import { type Denied, decide, policyDeniedError } from './decide.ts'
import type { DecisionRequestInput } from './decision-request.ts'
import type { GrantTerms } from './grant.ts'
import { createGrant, getGrant, listGrants, revokeGrant } from './grants.ts'
import { DECISION_REQUEST, grantIn, POLICY_OPERATOR, START_MS, storeWith } from './policy.fixture.ts'

const RECEIPT = { kind: 'sandbox_action', isolation: 'container', links: { backend_id: 'docker' } } as const

function ask(store: InProcessStore, changes: Partial<DecisionRequestInput> = {}) {
  return decide(store, store.log, { ...DECISION_REQUEST, ...changes }, RECEIPT)
}

test('writes a durable begin receipt with all inputs of the decision before it allows an effect', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store)
  const decision = await ask(store, { grant_id })
  if (decision.effect === 'deny') throw policyDeniedError(decision, DECISION_REQUEST)
  expect(decision).toMatchObject({ rule: 'strict.granted', grantOutcome: 'usable' })
  const begin = (await store.bodies()).at(-1)
  expect(begin).toMatchObject({
    id: decision.open.id,
    kind: 'sandbox_action',
    phase: 'begin',
    isolation: 'container',
    owner: { pid: process.pid },
    operator: POLICY_OPERATOR,
    capability: 'shell.test',
    operation: 'run',
    target: 'unit-tests',
    links: {
      backend_id: 'docker',
      task_id: 'task-1',
      policy_envelope_id: 'policy_task-1',
      grant_id,
      grant_outcome: 'usable',
    },
    decision: { effect: 'allow', rule: 'strict.granted', missing: [], replayable: true },
  })
  await decision.open.end({ status: 'passed' })
  expect((await store.bodies()).at(-1)).toMatchObject({
    phase: 'end',
    begin_id: decision.open.id,
    links: { grant_id },
  })
})

test('writes a denial receipt with the same links, and no begin, for a denied effect', async () => {
  const { store } = await storeWith('strict')
  const decision = await ask(store, { capability: 'shell.execute' })
  expect(decision).toMatchObject({ effect: 'deny', rule: 'strict.never', missing: ['capability_grant'] })
  const bodies = await store.bodies()
  expect(bodies).toHaveLength(1)
  expect(bodies[0]).toMatchObject({
    id: (decision as Denied).receipt.id,
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    links: {
      backend_id: 'docker',
      task_id: 'task-1',
      policy_envelope_id: 'policy_task-1',
      grant_outcome: 'missing',
    },
    decision: { effect: 'deny', rule: 'strict.never' },
    metadata: { denied_kind: 'sandbox_action' },
  })
  expect(bodies[0]).not.toHaveProperty('isolation')
})

test('denies shell.execute under strict even with a fitting grant, and spends nothing', async () => {
  const { store, clock } = await storeWith('strict')
  const grant_id = await grantIn(store, { capability: 'shell.execute' })
  const decision = await ask(store, { capability: 'shell.execute', grant_id })
  expect(decision).toMatchObject({
    effect: 'deny',
    rule: 'strict.never',
    missing: [],
    grantOutcome: 'usable',
  })
  expect(await getGrant(store, grant_id, clock.nowMs())).toMatchObject({ usesLeft: 1 })
})

test('allows one effect with a single-use grant', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store)
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'allow' })
  expect(await ask(store, { grant_id })).toMatchObject({
    effect: 'deny',
    grantOutcome: 'used_up',
    rule: 'default_deny',
  })
})

test('allows only as many concurrent requests as the grant has uses', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store, { max_uses: 3 })
  const decisions = await Promise.all(Array.from({ length: 10 }, () => ask(store, { grant_id })))
  expect(decisions.filter(({ effect }) => effect === 'allow')).toHaveLength(3)
})

test('denies when the last use disappears between check and spending', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store)
  store.tables.grants.consume = async () => false
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'deny', grantOutcome: 'used_up' })
})

test('never uses up an unlimited grant', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store, { max_uses: null })
  for (let i = 0; i < 5; i++) expect(await ask(store, { grant_id })).toMatchObject({ effect: 'allow' })
})

test('accepts a grant until the millisecond it expires', async () => {
  const { store, clock } = await storeWith('strict')
  const grant_id = await grantIn(store, { max_uses: null }, START_MS + 1000)
  clock.advance(999)
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'allow' })
  clock.advance(1)
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'deny', grantOutcome: 'expired' })
})

test.each<[string, Partial<DecisionRequestInput>]>([
  ['wrong_scope', { scope: {} }],
  ['wrong_subject', { operator: 'agent:coder' }],
  ['wrong_target', { target: 'other-tests' }],
  ['wrong_target', { path: 'src/a.ts' }],
  ['wrong_target', { repo: 'craik' }],
  ['wrong_operation', { operation: 'delete' }],
  ['wrong_capability', { capability: 'model.chat' }],
])('denies a grant for something else: %s %j', async (grantOutcome, changes) => {
  const { store } = await storeWith('strict', { allowedOperators: ['agent:coder'] })
  const grant_id = await grantIn(store)
  expect(await ask(store, { ...changes, grant_id })).toMatchObject({ effect: 'deny', grantOutcome })
})

test('denies a grant for another task', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store, { scope: { task_id: 'task-2' } })
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'deny', grantOutcome: 'wrong_scope' })
})

test('denies a revoked grant', async () => {
  const { store } = await storeWith('strict')
  const grant_id = await grantIn(store)
  await revokeGrant(store, grant_id, POLICY_OPERATOR)
  expect(await ask(store, { grant_id })).toMatchObject({ effect: 'deny', grantOutcome: 'revoked' })
  await expect(revokeGrant(store, grant_id, POLICY_OPERATOR)).rejects.toMatchObject({ code: 'conflict' })
})

test('denies a receipt offered as a grant, even where no grant is needed', async () => {
  const { store } = await storeWith('strict')
  const { receipt } = await createGrant(store, { ...REQUEST_TERMS })
  const requested = { grant_id: receipt.id }
  expect(await ask(store, requested)).toMatchObject({ effect: 'deny', grantOutcome: 'not_a_grant' })
  expect(await ask(store, { ...requested, capability: 'repo.read' })).toMatchObject({
    effect: 'deny',
    rule: 'control.capability_grant',
    grantOutcome: 'not_a_grant',
  })
})

test('denies a receipt whose id does not look like a receipt id', async () => {
  const { store } = await storeWith('strict')
  const { receipt } = await createGrant(store, { ...REQUEST_TERMS })
  const { receipts } = store.tables
  const get = receipts.get.bind(receipts)
  receipts.get = (id) => get(id === 'shell_invocation_1' ? receipt.id : id)
  expect(await ask(store, { grant_id: 'shell_invocation_1' })).toMatchObject({ grantOutcome: 'not_a_grant' })
})

test('looks up every id and denies ids that name nothing', async () => {
  const { store } = await storeWith('strict')
  expect(await ask(store, { grant_id: 'grant_made_up' })).toMatchObject({
    effect: 'deny',
    rule: 'control.capability_grant',
    grantOutcome: 'missing',
  })
  expect(await ask(store, { policy_envelope_id: 'policy_made_up' })).toMatchObject({
    effect: 'deny',
    rule: 'control.policy_envelope',
    missing: ['policy_envelope', 'capability_grant'],
  })
  const { policy_envelope_id: _, ...bare } = DECISION_REQUEST
  expect(await decide(store, store.log, bare, RECEIPT)).toMatchObject({ rule: 'control.policy_envelope' })
  expect((await store.bodies()).map(({ kind }) => kind)).toEqual(['denial', 'denial', 'denial'])
})

test('denies a task’s envelope for another task, no task or another operator', async () => {
  const { store } = await storeWith('strict')
  expect(await ask(store, { scope: { task_id: 'task-2' }, capability: 'repo.read' })).toMatchObject({
    rule: 'envelope.task',
  })
  expect(await ask(store, { scope: {}, capability: 'repo.read' })).toMatchObject({ rule: 'envelope.task' })
  expect(await ask(store, { operator: 'local-user:eve', capability: 'repo.read' })).toMatchObject({
    rule: 'envelope.operator',
  })
})

test('denies a credential that the envelope does not name', async () => {
  const { store } = await storeWith('strict', { allowedCredentialRefs: ['OPENAI_KEY'] })
  const use = (credential_ref: string) => ask(store, { capability: 'repo.read', credential_ref })
  expect(await use('OPENAI_KEY')).toMatchObject({ effect: 'allow' })
  expect(await use('AWS_KEY')).toMatchObject({ effect: 'deny', rule: 'envelope.credential' })
  expect((await store.bodies()).at(-1)).toMatchObject({
    links: { secret_ref: 'AWS_KEY' },
    decision: { replayable: true },
  })
})

test('denies when the envelope’s policy text is missing or was replaced', async () => {
  const { store } = await storeWith('strict')
  const text = '@id("strict.reads") permit (principal, action, resource);'
  store.database.prepare('UPDATE documents SET text = ?').run(text)
  expect(await ask(store, { capability: 'shell.execute' })).toMatchObject({
    effect: 'deny',
    rule: 'policy.error',
  })
  store.database.exec('DELETE FROM documents')
  expect(await ask(store, { capability: 'repo.read' })).toMatchObject({
    effect: 'deny',
    rule: 'policy.error',
  })
})

test('writes a separate receipt for each request that trusted-local fails open on', async () => {
  const { store } = await storeWith('trusted-local')
  const decision = await ask(store, { capability: 'shell.execute' })
  expect(decision).toMatchObject({ effect: 'allow', rule: 'trusted-local.fail_open' })
  const [created, begin, failOpen] = await store.bodies()
  expect(created).toMatchObject({ capability: 'policy.fail_open', operation: 'create' })
  expect(failOpen).toMatchObject({
    kind: 'environment_decision',
    status: 'passed',
    capability: 'policy.fail_open',
    operation: 'allow',
    target: 'shell.execute',
    links: { receipt_ids: [begin?.id], policy_envelope_id: 'policy_task-1' },
  })
})

test('writes no fail-open receipt when a rule of trusted-local decides', async () => {
  const { store } = await storeWith('trusted-local')
  await ask(store, { capability: 'repo.read' })
  expect((await store.bodies()).filter(({ capability }) => capability === 'policy.fail_open')).toHaveLength(1)
})

test('masks a path that looks like a secret and marks the receipt as not replayable', async () => {
  const { store } = await storeWith('strict')
  const secret = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
  await ask(store, { path: `docs/${secret}` })
  const [denial] = await store.bodies()
  expect(JSON.stringify(denial)).not.toContain(secret)
  expect(denial?.decision).toMatchObject({ replayable: false })
})

test.each<[string, Partial<DecisionRequestInput>]>([
  ['a target with blanks', { target: 'rm -rf /' }],
  ['a target that looks like a secret', { target: `ghp_${'a1B2c3D4e5F6'.repeat(3)}` }],
  ['a path that climbs', { path: '../secrets' }],
  ['a capability that is not dotted', { capability: 'everything' }],
  ['a target of 201 characters', { target: 'x'.repeat(201) }],
  ['an empty grant id', { grant_id: '' }],
])('refuses a request with %s before it writes anything', async (_, changes) => {
  const { store } = await storeWith('strict')
  await expect(ask(store, changes)).rejects.toMatchObject({ code: 'usage' })
  expect(await store.bodies()).toEqual([])
})

test('allows nothing and spends no use when the receipt cannot be written', async () => {
  const { store, clock } = await storeWith('strict')
  const grant_id = await grantIn(store)
  const insert = store.tables.receipts.insert
  store.tables.receipts.insert = () => Promise.reject(new Error('disk full'))
  await expect(ask(store, { grant_id })).rejects.toThrow('disk full')
  store.tables.receipts.insert = insert
  expect(await getGrant(store, grant_id, clock.nowMs())).toMatchObject({ usesLeft: 1 })
})

test('reports what was denied, by which rule, and the command to run next', async () => {
  const { store } = await storeWith('strict')
  const error = async (changes: Partial<DecisionRequestInput>) => {
    const request = { ...DECISION_REQUEST, ...changes }
    return policyDeniedError((await ask(store, changes)) as Denied, request)
  }
  const never = await error({ capability: 'shell.execute', target: 'fixture-action' })
  expect(never.code).toBe('denied')
  expect(never.message).toBe('shell.execute on fixture-action is denied by rule strict.never')
  expect(never.hint).toContain('craik policy show --profile strict')
  expect(never.hint).toMatch(/receipt rcpt_/)
  const grantable = await error({})
  expect(grantable.hint).toContain(
    'craik grant create --capability shell.test --subject local-user:ada --operation run --target unit-tests --task-id task-1',
  )
  const denied = (await ask(store, {})) as Denied
  expect(policyDeniedError(denied, DECISION_REQUEST, 'craik do it').hint).toMatch(
    /^grant it once: {2}craik grant create .*\(receipt rcpt_\w+\), then: {2}craik do it$/,
  )
  const receipt = await error({ grant_id: 'rcpt_1' })
  expect(receipt.message).toContain('rcpt_1 is a receipt, not a grant')
  const unknown = await error({ policy_envelope_id: 'policy_x' })
  expect(unknown.hint).toContain('craik policy show --task-id task-1 --include-receipt')
})

const SECRET = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
const REQUEST_TERMS = {
  capability: 'shell.test',
  subject: POLICY_OPERATOR,
  scope: { task_id: 'task-1' },
  operations: ['run'],
  approved_by: POLICY_OPERATOR,
}

test('writes a receipt when a grant is created and when it is revoked, and stores the redacted reason in the grant only', async () => {
  const { store, clock } = await storeWith('strict')
  const secret = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
  const { grant } = await createGrant(store, { ...REQUEST_TERMS, reason: `nightly run with ${secret}` })
  await revokeGrant(store, grant.id, 'local-user:bob')
  const shown = await getGrant(store, grant.id, clock.nowMs())
  expect(shown).toMatchObject({ state: 'revoked', grant: { reason: expect.stringContaining('nightly run') } })
  expect(JSON.stringify(shown)).not.toContain(secret)
  const bodies = await store.bodies()
  expect(JSON.stringify(bodies)).not.toContain('nightly')
  expect(bodies).toMatchObject([
    {
      kind: 'grant',
      status: 'passed',
      capability: 'grant.write',
      operation: 'create',
      target: grant.id,
      operator: POLICY_OPERATOR,
    },
    { kind: 'grant', status: 'passed', operation: 'revoke', target: grant.id, operator: 'local-user:bob' },
  ])
  expect(bodies[0]?.digests).toEqual(bodies[1]?.digests)
})

test.each<[string, Partial<GrantTerms>]>([
  ['subject', { subject: SECRET }],
  ['operations.1', { operations: ['run', SECRET] }],
  ['target.ref', { target: { ref: SECRET } }],
  ['target.repo', { target: { repo: SECRET } }],
  ['target.paths.0', { target: { paths: [`docs/${SECRET}/**`] } }],
  ['target.exclude.0', { target: { paths: ['docs'], exclude: [SECRET] } }],
  ['scope.task_id', { scope: { task_id: SECRET } }],
])('refuses a grant whose %s looks like a secret, without repeating it', async (where, changes) => {
  const { store, clock } = await storeWith('strict')
  const refused = createGrant(store, { ...REQUEST_TERMS, ...changes })
  await expect(refused).rejects.toMatchObject({
    code: 'usage',
    message: `the grant: ${where} looks like a secret`,
  })
  expect(await listGrants(store, clock.nowMs())).toEqual([])
  expect(await store.bodies()).toEqual([])
})

test('expires a grant after eight hours by default and refuses one that is already expired', async () => {
  const { store, clock } = await storeWith('strict')
  const { grant } = await createGrant(store, REQUEST_TERMS)
  expect(Date.parse(grant.expires_at)).toBe(START_MS + 8 * 3600 * 1000)
  for (const expiresAtMs of [START_MS, START_MS - 1, Number.NaN, START_MS + 400 * 86_400_000]) {
    await expect(createGrant(store, REQUEST_TERMS, { expiresAtMs })).rejects.toMatchObject({ code: 'usage' })
  }
  clock.advance(8 * 3600 * 1000)
  expect(await listGrants(store, clock.nowMs())).toMatchObject([{ state: 'expired', usesLeft: 1 }])
})

test('reports an unknown grant as not found', async () => {
  const { store } = await storeWith('strict')
  const unknown = { code: 'not_found', message: 'unknown grant: grant_x' }
  await expect(getGrant(store, 'grant_x', START_MS)).rejects.toMatchObject(unknown)
  await expect(revokeGrant(store, 'grant_x', POLICY_OPERATOR)).rejects.toMatchObject(unknown)
})
