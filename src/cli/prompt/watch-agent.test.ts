import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { ModelWatch, type Retrying } from '../../run/prompts/model-watch.ts'
import { watchAgent } from './watch-agent.ts'

const ABOUT = {
  kind: 'provider_action' as const,
  operator: 'local-user:ada',
  capability: 'model.chat',
  operation: 'chat',
  target: 'provider_openai',
  links: { sandbox_id: 'sbx_one' },
}

it('reports each try that was not answered, and gives up after too many', async () => {
  const store = inProcessStore(systemClock)
  const watch = new ModelWatch(store, { name: 'codex', loginCommand: '' }, 'sbx_one', 0, systemClock)
  const heard: Retrying[] = []
  const tries = async (count: number) => {
    for (let i = 0; i < count; i++)
      await (await store.log.begin(ABOUT)).end({ status: 'failed', metadata: { failure: 'unreachable' } })
  }
  const first = Promise.withResolvers<void>()
  const ended = watchAgent(
    watch,
    () => false,
    async (giveUp) => {
      await tries(2)
      await first.promise
      await tries(6)
      await new Promise((_, reject) => giveUp.addEventListener('abort', () => reject(giveUp.reason)))
      return { stopReason: 'end_turn' }
    },
    (retrying) => {
      heard.push(retrying)
      first.resolve()
    },
  )
  await expect(ended).rejects.toMatchObject({ code: 'provider_failed' })
  expect(heard[0]).toMatchObject({ why: 'the provider is unreachable' })
})
