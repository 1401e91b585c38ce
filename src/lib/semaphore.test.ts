import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Semaphore } from './semaphore.ts'

const NEVER = new AbortController().signal

describe('a semaphore', () => {
  it('runs a limited number of callers at once and each of them in order, even when some fail or abort', async () => {
    const one = fc.constantFrom('done', 'failed', 'left')
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(one, { maxLength: 12 }),
        async (most, ends) => {
          const gate = new Semaphore(most)
          const entered: number[] = []
          let inside = 0
          const passing = ends.map(async (end, n) => {
            const controller = new AbortController()
            const passed = gate.run(controller.signal, async () => {
              entered.push(n)
              expect(++inside).toBeLessThanOrEqual(most)
              await nextTurn()
              inside--
              if (end === 'failed') throw new Error('failed')
            })
            if (end === 'left') controller.abort(new Error('left'))
            return passed.then(
              () => 'done',
              (error: Error) => error.message,
            )
          })
          const message = await Promise.all(passing)
          // A caller that was already running when it aborted still completes.
          const expected = ends.map((end, n) => (end === 'left' && entered.includes(n) ? 'done' : end))
          expect(message).toEqual(expected)
          expect(entered).toEqual(entered.toSorted((a, b) => a - b))
          expect(entered).toEqual(
            expect.arrayContaining(ends.flatMap((end, n) => (end === 'left' ? [] : [n]))),
          )
          // There are as many free slots as before.
          let open = 0
          const all = Array.from({ length: most }, () =>
            gate.run(NEVER, async () => {
              open++
              await nextTurn()
              expect(open).toBe(most)
            }),
          )
          await Promise.all(all)
        },
      ),
    )
  })

  it('refuses a caller that has aborted before', async () => {
    const left = AbortSignal.abort(new Error('left'))
    await expect(new Semaphore(1).run(left, async () => 'inside')).rejects.toThrow('left')
  })
})
