import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { DecisionRequest } from './decision-request.ts'
import { checkGrant, type FoundGrant, grantTerms } from './grant.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')
const ID = 'grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'
type Found = Extract<FoundGrant, { found: 'grant' }>

const request: DecisionRequest = {
  operator: 'agent:coder',
  capability: 'repo.write.docs',
  operation: 'write',
  target: 'repo:craik',
  repo: 'craik',
  path: 'docs/guide/start.md',
  scope: { task_id: 'task-1', session_id: 'session-1' },
  grant_id: ID,
}
const grant: Found = {
  found: 'grant',
  id: ID,
  capability: 'repo.write.docs',
  subject: 'agent:coder',
  scope: { task_id: 'task-1' },
  target: { ref: 'repo:craik', repo: 'craik', paths: ['docs/**'], exclude: ['docs/legal/**'] },
  operations: ['write'],
  expires_at_ms: NOW + 1,
  uses_left: 1,
  revoked: false,
}

test('accepts a grant that fits in every way', () => {
  expect(checkGrant(grant, request, NOW)).toBe('usable')
})

test.each<[string, Partial<Found>, Partial<DecisionRequest>]>([
  ['wrong_capability', { capability: 'repo.write' }, {}],
  ['wrong_subject', { subject: 'agent:reviewer' }, {}],
  ['wrong_subject', { subject: 'agent:coder2' }, {}],
  ['wrong_scope', { scope: { task_id: 'task-2' } }, {}],
  ['wrong_scope', { scope: { task_id: 'task-1', run_id: 'run-1' } }, {}],
  ['wrong_scope', {}, { scope: {} }],
  ['usable', { scope: 'any' }, { scope: {} }],
  ['wrong_target', { target: { ...grant.target, ref: 'repo:other' } }, {}],
  ['wrong_target', { target: { ...grant.target, repo: 'other' } }, {}],
  ['wrong_target', { target: { ref: 'repo:craik', paths: ['docs/**'] } }, {}],
  ['wrong_target', { target: { ref: 'repo:craik', repo: 'craik' } }, {}],
  ['wrong_target', {}, { path: 'src/main.ts' }],
  ['wrong_target', {}, { path: 'docs/legal/terms.md' }],
  ['wrong_target', {}, { path: '/docs/guide/start.md' }],
  ['wrong_operation', { operations: ['delete', 'writer'] }, {}],
  ['expired', { expires_at_ms: NOW }, {}],
  ['expired', { expires_at_ms: NOW - 1 }, {}],
  ['revoked', { revoked: true }, {}],
  ['used_up', { uses_left: 0 }, {}],
  ['usable', { uses_left: null }, {}],
  ['missing', {}, { grant_id: 'grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PE' }],
  ['not_a_grant', {}, { grant_id: 'rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD' }],
])('%s: %j %j', (outcome, changes, requested) => {
  expect(checkGrant({ ...grant, ...changes }, { ...request, ...requested }, NOW)).toBe(outcome)
})

test('refuses a request without a path under a grant for paths', () => {
  const { path: _, ...pathless } = request
  expect(checkGrant(grant, pathless, NOW)).toBe('wrong_target')
})

test('refuses a grant that expired one millisecond ago or expires now, and accepts it one millisecond earlier', () => {
  const expires = { ...grant, expires_at_ms: NOW }
  expect(checkGrant(expires, request, NOW - 1)).toBe('usable')
  expect(checkGrant(expires, request, NOW)).toBe('expired')
  expect(checkGrant(expires, request, NOW + 1)).toBe('expired')
})

test('refuses an id that names nothing or a receipt', () => {
  expect(checkGrant(null, request, NOW)).toBe('missing')
  expect(checkGrant(undefined, request, NOW)).toBe('missing')
  expect(checkGrant({ found: 'nothing', id: ID }, request, NOW)).toBe('missing')
  expect(checkGrant({ found: 'receipt', id: ID }, request, NOW)).toBe('not_a_grant')
})

test('names the first of several faults in the fixed order', () => {
  const faults: [string, Partial<Found>][] = [
    ['used_up', { uses_left: 0 }],
    ['revoked', { revoked: true }],
    ['expired', { expires_at_ms: 0 }],
    ['wrong_operation', { operations: ['x'] }],
    ['wrong_target', { target: {} }],
    ['wrong_scope', { scope: { task_id: 'x' } }],
    ['wrong_subject', { subject: 'x' }],
    ['wrong_capability', { capability: 'repo.read' }],
  ]
  let broken = grant
  for (const [outcome, fault] of faults) {
    broken = { ...broken, ...fault }
    expect(checkGrant(broken, request, NOW)).toBe(outcome)
  }
})

test('accepts a grant exactly when every field fits', () => {
  const name = fc.constantFrom('a', 'b')
  const maybe = fc.option(name, { nil: undefined })
  const ids = fc.record({ task_id: maybe, session_id: maybe, run_id: maybe })
  const path = fc.option(fc.constantFrom('x', 'x/y', 'z'), { nil: undefined })
  const paths = fc.option(fc.uniqueArray(fc.constantFrom('x', 'x/**', '*', 'z'), { minLength: 1 }), {
    nil: undefined,
  })
  const exclude = fc.option(fc.constantFrom(['x/y'], ['z']), { nil: undefined })
  // An independent reference: which of the three paths each pattern covers.
  const covers: Record<string, string[]> = {
    x: ['x'],
    'x/**': ['x', 'x/y'],
    '*': ['x', 'z'],
    z: ['z'],
    'x/y': ['x/y'],
  }
  const generated = fc.record({
    capability: fc.constantFrom('repo.read', 'repo.write'),
    subject: name,
    scope: fc.oneof(fc.constant('any' as const), ids),
    target: fc.record({ ref: maybe, repo: maybe, paths, exclude }),
    operations: fc.uniqueArray(name, { minLength: 1 }),
    expires_at_ms: fc.integer({ min: NOW - 1, max: NOW + 2 }),
    uses_left: fc.constantFrom(0, 1, 2, null),
    revoked: fc.boolean(),
  })
  const requested = fc.record({
    capability: fc.constantFrom('repo.read', 'repo.write'),
    operator: name,
    operation: name,
    target: name,
    repo: maybe,
    path,
    scope: ids,
  })
  let usable = 0
  fc.assert(
    fc.property(generated, requested, (terms, wanted) => {
      const fits = [
        terms.capability === wanted.capability,
        terms.subject === wanted.operator,
        terms.scope === 'any' ||
          Object.entries(terms.scope).every(
            ([key, id]) => id === undefined || wanted.scope[key as keyof typeof wanted.scope] === id,
          ),
        terms.target.ref === undefined || terms.target.ref === wanted.target,
        terms.target.repo === wanted.repo,
        wanted.path === undefined
          ? terms.target.paths === undefined
          : (terms.target.paths ?? []).flatMap((one) => covers[one]!).includes(wanted.path) &&
            !(terms.target.exclude ?? []).flatMap((one) => covers[one]!).includes(wanted.path),
        terms.operations.includes(wanted.operation),
        NOW < terms.expires_at_ms,
        terms.uses_left === null || terms.uses_left > 0,
        !terms.revoked,
      ]
      const outcome = checkGrant(
        { found: 'grant', id: ID, ...terms } as Found,
        { ...wanted, grant_id: ID },
        NOW,
      )
      if (outcome === 'usable') usable++
      expect(outcome === 'usable').toBe(fits.every(Boolean))
    }),
    { numRuns: 20_000 },
  )
  expect(usable).toBeGreaterThan(0)
})

const terms = {
  capability: 'shell.test',
  subject: 'agent:coder',
  scope: 'any',
  operations: ['run'],
  approved_by: 'local-user:ada',
}

test('defaults to a single use and no target', () => {
  expect(grantTerms.parse(terms)).toMatchObject({ max_uses: 1, target: {} })
})

test.each([
  ['an unknown capability', { capability: 'shell.tests' }],
  ['a wildcard subject', { subject: '*' }],
  ['an empty scope', { scope: {} }],
  ['a scope with an unknown id', { scope: { project_id: 'x' } }],
  ['no operation', { operations: [] }],
  ['no use at all', { max_uses: 0 }],
  ['half a use', { max_uses: 0.5 }],
  ['a path that climbs', { target: { paths: ['docs/../..'] } }],
  ['a glob inside a segment', { target: { paths: ['docs/*.md'] } }],
  ['exclude without paths', { target: { exclude: ['docs'] } }],
  ['a reason of 501 characters', { reason: 'x'.repeat(501) }],
  ['a field that does not exist', { note: 'x' }],
])('refuses terms with %s', (_, change) => {
  expect(grantTerms.safeParse({ ...terms, ...change }).success).toBe(false)
})
