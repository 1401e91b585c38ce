import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Receipt } from '../receipts/schema.ts'
import { CAPABILITY_NAMES } from './capabilities.ts'
import { policyDigest } from './cedar.ts'
import { decide } from './decide.ts'
import { type BuiltIn, DECISION_REQUEST, grantIn, storeWith } from './policy.fixture.ts'
import { readBuiltInPolicy } from './profiles.ts'
import { replayDecision } from './replay.ts'

type Body = Receipt['body']
const texts = (['strict', 'trusted-local', 'automation'] as const).map(readBuiltInPolicy)
const byDigest = new Map(texts.map((text) => [policyDigest(text), text]))
const documents = (digest: string) => byDigest.get(digest)

async function decideBody(profile: BuiltIn, capability: string, withGrant: boolean): Promise<Body> {
  const { store } = await storeWith(profile)
  const grant_id = withGrant ? await grantIn(store, { capability }) : undefined
  const request = { ...DECISION_REQUEST, capability, ...(grant_id && { grant_id }) }
  await decide(store, store.log, request, { kind: 'sandbox_action', links: {} })
  return (await store.bodies()).find(({ decision }) => decision !== undefined)!
}

const change = (body: Body, path: readonly string[], value: unknown): Body => {
  const copy = structuredClone(body) as unknown as Record<string, unknown>
  const parent = path.slice(0, -1).reduce((at, key) => at[key] as Record<string, unknown>, copy)
  parent[path.at(-1)!] = value
  return copy as unknown as Body
}

test('agrees with every decision that was made', async () => {
  for (const profile of ['strict', 'trusted-local', 'automation'] as const) {
    const { store } = await storeWith(profile)
    for (const capability of CAPABILITY_NAMES) {
      const granted = await grantIn(store, { capability })
      for (const grant of [{}, { grant_id: granted }])
        await decide(
          store,
          store.log,
          { ...DECISION_REQUEST, capability, ...grant },
          { kind: 'sandbox_action', links: {} },
        )
    }
    const decided = (await store.bodies()).filter(({ decision }) => decision !== undefined)
    expect(decided).toHaveLength(CAPABILITY_NAMES.length * 2)
    for (const body of decided) expect(await replayDecision(body, documents)).toBe('agrees')
  }
})

test('agrees with a decision without an envelope, without any document', async () => {
  const { store } = await storeWith('strict')
  await decide(
    store,
    store.log,
    { ...DECISION_REQUEST, policy_envelope_id: 'policy_x' },
    { kind: 'sandbox_action', links: {} },
  )
  expect(await replayDecision((await store.bodies())[0]!, () => undefined)).toBe('agrees')
})

test('differs when the decision was flipped', async () => {
  const denied = await decideBody('strict', 'shell.execute', true)
  expect(await replayDecision(change(denied, ['decision', 'effect'], 'allow'), documents)).toBe('differs')
  const allowed = await decideBody('strict', 'repo.read', false)
  expect(await replayDecision(change(allowed, ['decision', 'effect'], 'deny'), documents)).toBe('differs')
})

test.each<[string, readonly string[], unknown]>([
  ['another rule', ['decision', 'rule'], 'strict.reads'],
  ['another missing control', ['decision', 'missing'], ['receipt']],
  ['another grant outcome', ['links', 'grant_outcome'], 'missing'],
  ['another grant', ['links', 'grant_id'], 'grant_x'],
  ['another capability', ['capability'], 'model.chat'],
  ['another target', ['target'], 'other'],
  ['another operator', ['operator'], 'local-user:eve'],
  ['another policy digest', ['decision', 'policy_digest'], `sha256:${'0'.repeat(64)}`],
  ['an input for another capability', ['decision', 'input', 'request', 'capability'], 'model.chat'],
  ['an input with the grant expired', ['decision', 'input', 'grant', 'expires_at_ms'], 0],
  ['an input with the grant used up', ['decision', 'input', 'grant', 'uses_left'], 0],
  ['an input with the grant revoked', ['decision', 'input', 'grant', 'revoked'], true],
  ['an input from later', ['decision', 'input', 'now_ms'], 9e15],
  ['an input with a control missing', ['decision', 'input', 'controls', 'receipt'], false],
  [
    'an input with a tighter envelope',
    ['decision', 'input', 'envelope', 'denied_capabilities'],
    ['shell.test'],
  ],
  ['an input without an envelope', ['decision', 'input', 'envelope'], null],
  ['an input that is not one', ['decision', 'input', 'extra'], 1],
])('differs with %s', async (_, path, value) => {
  const body = await decideBody('strict', 'shell.test', true)
  expect(await replayDecision(body, documents)).toBe('agrees')
  expect(await replayDecision(change(body, path, value), documents)).toBe('differs')
})

test('reports a missing document without the policy or with another one in its place', async () => {
  const body = await decideBody('strict', 'repo.read', false)
  expect(await replayDecision(body, () => undefined)).toBe('document_missing')
  expect(await replayDecision(body, () => '@id("strict.reads") permit (principal, action, resource);')).toBe(
    'document_missing',
  )
})

test('does not replay a redacted input, another kind of decision or a receipt without one', async () => {
  const body = await decideBody('strict', 'repo.read', false)
  expect(await replayDecision(change(body, ['decision', 'replayable'], false), documents)).toBe(
    'not_replayable',
  )
  expect(await replayDecision(change(body, ['decision', 'input'], { price: 1 }), documents)).toBe(
    'not_replayable',
  )
  expect(await replayDecision(change(body, ['decision'], undefined), documents)).toBe('not_replayable')
})

/** Returns the receipt of a request whose policy text was missing at the time of the decision. */
async function denyWithoutPolicy(tighten = {}): Promise<Body> {
  const { store } = await storeWith('strict', tighten)
  const grant_id = await grantIn(store, { capability: 'shell.test' })
  store.database.exec('DELETE FROM documents')
  const request = { ...DECISION_REQUEST, capability: 'shell.test', grant_id }
  await decide(store, store.log, request, { kind: 'sandbox_action', links: {} })
  return (await store.bodies()).at(-1)!
}

test('does not replay a denial because the policy could not be evaluated', async () => {
  const body = await denyWithoutPolicy()
  expect(body).toMatchObject({ kind: 'denial', decision: { effect: 'deny', rule: 'policy.error' } })
  expect(await replayDecision(body, documents)).toBe('not_replayable')
})

test('differs when a denial by policy.error was edited', async () => {
  const body = await denyWithoutPolicy()
  const edits: [readonly string[], unknown][] = [
    [['decision', 'effect'], 'allow'],
    [['decision', 'missing'], ['capability_grant']],
    [['links', 'grant_outcome'], 'expired'],
    // The receipt of an action that happened.
    [['kind'], 'sandbox_action'],
    [['target'], 'other'],
  ]
  for (const [path, value] of edits)
    expect(await replayDecision(change(body, path, value), documents)).toBe('differs')

  const allowed = await decideBody('strict', 'repo.read', false)
  const hidden = ['effect', 'rule'].reduce(
    (at, field) => change(at, ['decision', field], field === 'effect' ? 'deny' : 'policy.error'),
    allowed,
  )
  expect(await replayDecision(hidden, documents)).toBe('differs')

  const byEnvelope = await denyWithoutPolicy({ deniedCapabilities: ['shell.test'] })
  expect(byEnvelope).toMatchObject({ decision: { rule: 'envelope.denied_capability' } })
  expect(await replayDecision(byEnvelope, documents)).toBe('agrees')
  expect(await replayDecision(change(byEnvelope, ['decision', 'rule'], 'policy.error'), documents)).toBe(
    'differs',
  )
})

test('agrees for any restriction in the envelope', async () => {
  const names = fc.subarray<string>([...CAPABILITY_NAMES])
  const lists = fc.record({
    deniedCapabilities: names,
    approvalRequired: names,
    allowedCapabilities: fc.option(names),
  })
  await fc.assert(
    fc.asyncProperty(
      lists,
      fc.constantFrom(...CAPABILITY_NAMES),
      fc.boolean(),
      async (tighten, capability, grant) => {
        const { allowedCapabilities, ...rest } = tighten
        const { store } = await storeWith('strict', {
          ...rest,
          ...(allowedCapabilities && { allowedCapabilities }),
        })
        const grant_id = grant ? await grantIn(store, { capability }) : undefined
        const request = { ...DECISION_REQUEST, capability, ...(grant_id && { grant_id }) }
        await decide(store, store.log, request, { kind: 'sandbox_action', links: {} })
        expect(await replayDecision((await store.bodies()).at(-1)!, documents)).toBe('agrees')
      },
    ),
    { numRuns: 200 },
  )
})
