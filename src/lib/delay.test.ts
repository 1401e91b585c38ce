import { describe, expect, it } from 'vitest'
import { delay } from './delay.ts'

const HOUR_MS = 3_600_000

describe('a delay', () => {
  it('ends by itself', async () => {
    await delay(1, undefined)
    await delay(1, new AbortController().signal)
  })

  it('ends with the reason of the signal, also when the signal had aborted before', async () => {
    const reason = new Error('the user left')
    const controller = new AbortController()
    const waiting = delay(HOUR_MS, controller.signal)
    controller.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await expect(delay(HOUR_MS, controller.signal)).rejects.toBe(reason)
  })
})
