import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { lookUp, systemWeb, type Web } from './web.ts'

const unhandled: unknown[] = []
const note = (error: unknown) => unhandled.push(error)
beforeEach(() => {
  process.on('unhandledRejection', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
  unhandled.splice(0)
})

it('leaves no unhandled rejection when the client disconnected before the lookup', async () => {
  const web: Web = {
    ...systemWeb(),
    resolve: async (_, until) => {
      until.throwIfAborted()
      return []
    },
  }
  const gone = AbortSignal.abort(new Error('the client disconnected'))
  expect(await lookUp(web, 'a.example', 1_000, gone)).toMatchObject({ outcome: 'failed' })
  await turn()
  await turn()
  expect(unhandled).toEqual([])
})
