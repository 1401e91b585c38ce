/** Budgets under load from sandboxes: in tokens, and in dollars for a provider with known prices. */
import { expect, it } from 'vitest'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { AFFORDED, type FireReport, overloadBudget, STREAMS } from './budget-fire.ts'
import type { DollarReport } from './budget-world.fixture.ts'
import { LoginScene } from './login-scene.ts'
import { inWorld } from './world.ts'

function expectHalf(report: FireReport): void {
  const { heldByOne, spentByOne, limit } = report
  expect(heldByOne).toBeGreaterThan(spentByOne)
  expect(spentByOne).toBeGreaterThan(0)
  expect(report).toMatchObject({
    height: { limit, held: AFFORDED * heldByOne, spent: spentByOne },
    after: { limit, held: 0, spent: spentByOne * (1 + AFFORDED) },
    arrivedAtHeight: AFFORDED,
    arrived: AFFORDED,
    answered: AFFORDED,
    refused: STREAMS - AFFORDED,
    leaks: [],
    differ: [],
    exceeded: null,
    peak: spentByOne * (1 + AFFORDED),
  })
}

it('64 streams at once from four sandboxes: a budget for half of them allows half, and is never exceeded', async () => {
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' })
  await scene.setKey('ANTHROPIC_API_KEY', 'anthropic')
  expectHalf(await overloadBudget(scene, 'tokens'))
})

it.skipIf(ROOT_IS_NEEDED !== undefined)(
  ROOT_IS_NEEDED ?? 'the same in dollars: not a nano-dollar more, and the log proves it',
  async () => {
    expectHalf(await inWorld<DollarReport>('budget-world.fixture.ts'))
  },
)
