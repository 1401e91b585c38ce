/** The contract of every store's ledger: the statement that changes a balance also enforces its limits. */
import { beforeEach, describe, expect, it } from 'vitest'
import type { BudgetId, HoldId } from '../../src/lib/ids.ts'
import type { BalanceKey, BudgetRow, HoldRow } from '../../src/store/ledger-tables.ts'
import type { Tables } from '../../src/store/store.ts'
import type { StoreUnderTest } from './store.ts'

export function ledgerContract(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${name} as a ledger`, () => {
    let store: StoreUnderTest
    beforeEach(async () => {
      store = await open()
    })
    const inside = <T>(work: (tables: Tables) => Promise<T>) => store.transaction(work)
    const hold = (nanoUsd: number, tokens = 0) =>
      inside(({ budgets }) => budgets.hold(KEY, { nanoUsd, tokens }))
    const balance = () => inside(({ budgets }) => budgets.balance(KEY))

    it('holds amounts up to the limit, and nothing above it', async () => {
      await inside(({ budgets }) => budgets.put(budget({ limitTokens: 50 })))
      expect(await balance()).toEqual({ spentNanoUsd: 0, heldNanoUsd: 0, spentTokens: 0, heldTokens: 0 })
      expect(await hold(101)).toBe(false)
      expect(await hold(60, 51)).toBe(false)
      expect(await hold(60, 50)).toBe(true)
      expect(await hold(41)).toBe(false)
      expect(await hold(40, 1)).toBe(false)
      expect(await hold(40)).toBe(true)
      expect(await balance()).toEqual({ spentNanoUsd: 0, heldNanoUsd: 100, spentTokens: 0, heldTokens: 50 })
    })

    it('counts spent amounts against the limit, but lets free calls exceed it', async () => {
      await inside(({ budgets }) => budgets.put(budget()))
      await hold(10)
      await inside(({ budgets }) =>
        budgets.settle(KEY, { nanoUsd: 10, tokens: 0 }, { nanoUsd: 120, tokens: 7 }),
      )
      expect(await balance()).toEqual({ spentNanoUsd: 120, heldNanoUsd: 0, spentTokens: 7, heldTokens: 0 })
      expect(await hold(1)).toBe(false)
      expect(await hold(0, 5)).toBe(true)
    })

    it('never counts above the largest exact number', async () => {
      await inside(({ budgets }) => budgets.put(budget({ limitNanoUsd: null })))
      const most = Number.MAX_SAFE_INTEGER
      await hold(1, 1)
      await inside(({ budgets }) =>
        budgets.settle(KEY, { nanoUsd: 1, tokens: 1 }, { nanoUsd: most, tokens: most }),
      )
      await hold(1, 1)
      await inside(({ budgets }) => budgets.settle(KEY, { nanoUsd: 1, tokens: 1 }, { nanoUsd: 5, tokens: 5 }))
      expect(await balance()).toMatchObject({ spentNanoUsd: most, spentTokens: most })
    })

    it('refuses to release more than is held', async () => {
      await inside(({ budgets }) => budgets.put(budget()))
      await hold(10)
      const tooMuch = { nanoUsd: 11, tokens: 0 }
      await expect(inside(({ budgets }) => budgets.settle(KEY, tooMuch, tooMuch))).rejects.toThrow()
      expect(await balance()).toMatchObject({ heldNanoUsd: 10 })
    })

    it('keeps a balance for each window', async () => {
      await inside(({ budgets }) => budgets.put(budget()))
      await hold(100)
      const next = { ...KEY, windowStartMs: 86_400_000 }
      expect(await inside(({ budgets }) => budgets.hold(next, { nanoUsd: 100, tokens: 0 }))).toBe(true)
    })

    it('finds only the budgets of a call, and a removed one limits nothing', async () => {
      const id = (text: string) => text as BudgetId
      await inside(async ({ budgets }) => {
        await budgets.put(budget({ id: id('d'), scopeKind: 'total', scopeRef: null }))
        await budgets.put(budget({ id: id('c'), scopeKind: 'session', scopeRef: 'agent_1' }))
        await budgets.put(budget({ id: id('b'), scopeKind: 'session', scopeRef: 'agent_2' }))
        await budgets.put(budget({ id: id('a') }))
        await budgets.put(budget({ id: id('e'), removedAtMs: 5 }))
      })
      const scopes = { provider: 'provider_x', session: 'agent_1', sandbox: undefined, operator: 'me' }
      const found = await inside(({ budgets }) => budgets.applying(scopes))
      expect(found.map((row) => row.id)).toEqual(['a', 'c', 'd'])
      expect(await inside(({ budgets }) => budgets.get('e'))).toEqual(budget({ id: id('e'), removedAtMs: 5 }))
      const removed = { ...KEY, budgetId: id('e') }
      expect(await inside(({ budgets }) => budgets.hold(removed, { nanoUsd: 1, tokens: 0 }))).toBe(false)
    })

    it('removes a hold once', async () => {
      await inside(({ holds }) => holds.insert(HOLD))
      expect(await inside(({ holds }) => holds.get(HOLD.id))).toEqual(HOLD)
      expect(await inside(({ holds }) => holds.listCreatedUntil(999))).toEqual([])
      expect(await inside(({ holds }) => holds.listCreatedUntil(1000))).toEqual([HOLD])
      expect(await inside(({ holds }) => holds.owners('provider', 'provider_x'))).toEqual([HOLD.owner])
      expect(await inside(({ holds }) => holds.owners('session', 'agent_2'))).toEqual([])
      expect(await inside(({ holds }) => holds.take(HOLD.id))).toEqual({
        id: HOLD.id,
        document: HOLD.document,
      })
      expect(await inside(({ holds }) => holds.take(HOLD.id))).toBeUndefined()
    })

    it('counts the uses of a minute, corrects them, and forgets old ones', async () => {
      const use = (n: number) => ({
        holdId: `hold_${n}` as HoldId,
        providerId: 'provider_x',
        sessionId: n % 2 === 0 ? 'agent_1' : null,
        atMs: n * 1000,
        tokens: 10,
      })
      await inside(async ({ quotaUses }) => {
        for (const n of [1, 2, 3]) await quotaUses.add(use(n), 1000)
        await quotaUses.correct('hold_3', 4)
      })
      const countUses = (after: number) =>
        inside(({ quotaUses }) => quotaUses.count('provider', 'provider_x', after))
      expect(await countUses(0)).toEqual({ requests: 2, tokens: 14 })
      expect(await countUses(2000)).toEqual({ requests: 1, tokens: 4 })
      expect(await countUses(3000)).toEqual({ requests: 0, tokens: 0 })
      expect(await inside(({ quotaUses }) => quotaUses.list('session', 'agent_1', 0))).toEqual([
        { atMs: 2000, tokens: 10 },
      ])
    })
  })
}

const KEY: BalanceKey = { budgetId: 'b' as BudgetId, period: 'day', windowStartMs: 0 }

function budget(changes: Partial<BudgetRow> = {}): BudgetRow {
  return {
    id: 'b' as BudgetId,
    scopeKind: 'provider',
    scopeRef: 'provider_x',
    period: 'day',
    limitNanoUsd: 100,
    limitTokens: null,
    allowUnpriced: false,
    createdAtMs: 1,
    updatedAtMs: 2,
    removedAtMs: null,
    ...changes,
  }
}

const HOLD: HoldRow = {
  id: 'hold_1' as HoldId,
  providerId: 'provider_x',
  sessionId: 'agent_1',
  owner: { bootId: 'b', pid: 7, startedAt: '9', pidNamespace: 'pid:[1]' },
  createdAtMs: 1000,
  document: '{}',
}
