import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ReceiptId } from '../lib/ids.ts'
import { RECEIPT_KINDS, RECEIPT_STATUSES } from './kinds.ts'
import { serializePlainDraft } from './plain-draft.ts'
import { prepareReceipt, prepareWithCare } from './prepare.ts'
import { CleanJson } from './redaction/redact.ts'
import type { ReceiptDraft } from './schema.ts'

const ID = 'rcpt_01M7HA9QPMX502KC3GJ771EZPD' as ReceiptId
const TOKEN = `ghp_${'a1B2'.repeat(9)}`
const DIGEST = `sha256:${'0a'.repeat(32)}`
const OWNER = { boot_id: 'b', pid: 7, started_at: '1', pid_namespace: 'pid:[1]' }

const BEGIN: ReceiptDraft = {
  kind: 'provider_action',
  phase: 'begin',
  operator: 'local-user:me',
  capability: 'model.chat',
  operation: 'chat',
  target: 'provider_x',
  links: { provider_id: 'provider_x', session_id: 'agent_1', receipt_ids: [ID], grant_outcome: 'usable' },
  decision: {
    effect: 'allow',
    rule: 'automation.granted',
    missing: [],
    policy_digest: DIGEST,
    replayable: true,
    input: { now_ms: 1, request: { scope: {}, note: 'any text, é' }, budgets: [{ held_tokens: 7 }] },
  },
  metadata: { model: 'm', attempts: 1 },
  digests: { argv: DIGEST },
  owner: OWNER,
}
const END: ReceiptDraft = {
  kind: 'provider_action',
  phase: 'end',
  status: 'passed',
  begin_id: ID,
  operator: 'local-user:me',
  capability: 'model.chat',
  links: { provider_result_count: 1 },
  measures: [
    { name: 'duration_ms', value: 12, source: 'observed' },
    { name: 'input_tokens', value: 300, source: 'claimed' },
  ],
}

const odd = fc.constantFrom<unknown>(
  undefined,
  null,
  '',
  'a b',
  'x',
  TOKEN,
  -1,
  0,
  7,
  1.5,
  NaN,
  true,
  [],
  ['x'],
  ['a b'],
  {},
  { a: 1 },
  '\ud800',
  { tokens: 3 },
  { password: 'x1y2' },
  { n: undefined },
  new Date(0),
  'x'.repeat(150),
  'é'.repeat(300),
  DIGEST,
)
const path = fc.constantFrom(
  'operator',
  'capability',
  'operation',
  'target',
  'isolation',
  'begin_id',
  'status',
  'phase',
  'kind',
  'links',
  'owner',
  'metadata',
  'decision',
  'digests',
  'key',
  'shell',
  'measures',
  'redacted_fields',
  'unheard_of',
  'id',
  'links.session_id',
  'links.receipt_ids',
  'links.provider_result_count',
  'links.grant_outcome',
  'links.other',
  'decision.input',
  'decision.input.x',
  'decision.effect',
  'decision.rule',
  'decision.missing',
  'decision.replayable',
  'decision.policy_digest',
  'decision.price_digest',
  'decision.other',
  'metadata.x',
  'metadata.env',
  'owner.pid',
  'owner.boot_id',
  'owner.other',
  'digests.argv',
  'digests.x',
  'measures.0',
  'measures.1.name',
  'measures.1.value',
  'measures.0.source',
)
const draft = fc
  .tuple(
    fc.constantFrom(BEGIN, END),
    fc.array(
      fc.oneof(
        fc.tuple(path, odd),
        fc.tuple(fc.constant('status'), fc.constantFrom<unknown>(...RECEIPT_STATUSES, undefined)),
        fc.tuple(fc.constant('kind'), fc.constantFrom<unknown>(...RECEIPT_KINDS)),
        fc.tuple(fc.constant('phase'), fc.constantFrom<unknown>('begin', 'end', 'point')),
        fc.tuple(fc.constant('owner'), fc.constantFrom<unknown>(OWNER, undefined)),
      ),
      { maxLength: 3 },
    ),
  )
  .map(([base, changes]) => {
    const changed = structuredClone(base) as Record<string, unknown>
    for (const [at, value] of changes) {
      const names = at.split('.')
      const last = names.pop()!
      let inside: unknown = changed
      for (const name of names) inside = (inside as Record<string, unknown> | null | undefined)?.[name]
      if (typeof inside === 'object' && inside !== null)
        (inside as Record<string, unknown>)[last] = structuredClone(value)
    }
    return changed as ReceiptDraft
  })

describe('the fast path into the log', () => {
  it('serializes a draft exactly as the full path does, or returns nothing', () => {
    const known = new CleanJson()
    let short = 0
    fc.assert(
      fc.property(draft, (provided) => {
        const text = serializePlainDraft(ID, provided, known)
        if (text === undefined) return
        short++
        expect(text).toBe(prepareWithCare(ID, provided, new CleanJson()).body)
        expect(prepareReceipt(ID, provided, known)).toEqual(prepareWithCare(ID, provided, new CleanJson()))
      }),
      { numRuns: 5000 },
    )
    expect(short).toBeGreaterThan(500)
  })

  it('accepts the receipts of a model call', () => {
    expect(serializePlainDraft(ID, BEGIN, new CleanJson())).toBeDefined()
    expect(serializePlainDraft(ID, END, new CleanJson())).toBeDefined()
  })
})

describe('a decision', () => {
  const bodyOf = (provided: ReceiptDraft) => JSON.parse(prepareReceipt(ID, provided).body)

  it('stays replayable while redaction does not change its input', () => {
    expect(bodyOf(BEGIN).decision).toMatchObject({ replayable: true, input: BEGIN.decision!.input })
    const elsewhere = { ...BEGIN, metadata: { model: TOKEN } }
    expect(bodyOf(elsewhere)).toMatchObject({
      decision: { replayable: true },
      redacted_fields: ['$.metadata.model'],
    })
  })

  it('is not replayable after redaction removed something from its input', () => {
    const { decision } = bodyOf({ ...BEGIN, decision: { ...BEGIN.decision!, input: { model: TOKEN } } })
    expect(decision.replayable).toBe(false)
    expect(JSON.stringify(decision)).not.toContain(TOKEN)
  })
})
