/** Policy on the real store: the writer thread, SQLite and the sealed log. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../lib/clock.ts'
import { createReceiptLog } from '../receipts/receipt-log.ts'
import type { Receipt } from '../receipts/schema.ts'
import { homeAt } from '../store/home.ts'
import { openSqliteStore } from '../store/sqlite/sqlite-store.ts'
import type { Store } from '../store/store.ts'
import { decide } from './decide.ts'
import { createEnvelope, getEnvelope } from './envelope.ts'
import { createGrant, getGrant, revokeGrant } from './grants.ts'
import { DECISION_REQUEST, envelopeFor, POLICY_OPERATOR, TERMS } from './policy.fixture.ts'
import { readBuiltInPolicy } from './profiles.ts'
import { replayDecision } from './replay.ts'

const WRITER = new URL('../writer.ts', import.meta.url)
const EFFECT = { kind: 'sandbox_action', links: {} } as const

async function withStore(work: (store: Store) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'craik-policy-store-'))
  try {
    await using store = await openSqliteStore(homeAt(join(folder, 'home')), WRITER)
    await createEnvelope(store, await envelopeFor('strict'), readBuiltInPolicy('strict'), {
      operator: POLICY_OPERATOR,
    })
    await work(store)
  } finally {
    await rm(folder, { recursive: true })
  }
}

test('decides, spends, seals and replays', () =>
  withStore(async (store) => {
    const log = createReceiptLog(store, systemClock)
    expect(await getEnvelope(store, 'policy_task-1')).toEqual(await envelopeFor('strict'))
    const { grant, receipt } = await createGrant(store, { ...TERMS, max_uses: 2 })

    const requested = { ...DECISION_REQUEST, grant_id: grant.id }
    const all = await Promise.all(Array.from({ length: 6 }, () => decide(store, log, requested, EFFECT)))
    expect(all.filter(({ effect }) => effect === 'allow')).toHaveLength(2)
    expect(await getGrant(store, grant.id, systemClock.nowMs())).toMatchObject({
      usesLeft: 0,
      state: 'used_up',
    })
    for (const decision of all) if (decision.effect === 'allow') await decision.open.end({ status: 'passed' })

    expect(await decide(store, log, { ...DECISION_REQUEST, grant_id: receipt.id }, EFFECT)).toMatchObject({
      effect: 'deny',
      grantOutcome: 'not_a_grant',
    })
    expect(
      await decide(store, log, { ...DECISION_REQUEST, capability: 'shell.execute' }, EFFECT),
    ).toMatchObject({
      effect: 'deny',
      rule: 'strict.never',
    })
    await revokeGrant(store, grant.id, POLICY_OPERATOR)
    await expect(revokeGrant(store, 'grant_x', POLICY_OPERATOR)).rejects.toMatchObject({ code: 'not_found' })

    const { rows, documents } = await store.read(async (tables) => ({
      rows: await tables.receipts.scan(0, 1000),
      documents: new Map((await tables.documents.list()).map(({ digest, text }) => [digest, text])),
    }))
    const bodies = rows.map(({ line }) => (JSON.parse(line) as Receipt).body)
    const decided = bodies.filter(({ decision }) => decision !== undefined)
    expect(decided).toHaveLength(8)
    for (const body of decided)
      expect(await replayDecision(body, (digest) => documents.get(digest))).toBe('agrees')
    expect(bodies.filter(({ kind }) => kind === 'denial')).toHaveLength(6)
    expect(bodies.filter(({ phase }) => phase === 'end')).toHaveLength(2)
    expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, i) => i))
  }))

test('keeps other effects of the same commit when one is denied', () =>
  withStore(async (store) => {
    const log = createReceiptLog(store, systemClock)
    const { grant } = await createGrant(store, TERMS)
    const [bad, good] = await Promise.allSettled([
      createGrant(store, { ...TERMS, operations: [] }),
      decide(store, log, { ...DECISION_REQUEST, grant_id: grant.id }, EFFECT),
    ])
    expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'usage' } })
    expect(good).toMatchObject({ status: 'fulfilled', value: { effect: 'allow' } })
  }))
