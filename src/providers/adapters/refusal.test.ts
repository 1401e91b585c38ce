import { expect, it } from 'vitest'
import { readProblem } from './refusal.ts'

it.each([
  [
    { message: 'no', code: 'invalid_image', type: 7, status: null },
    { message: 'no', code: 'invalid_image' },
  ],
  ['no', { message: 'no' }],
  [
    { code: 404, details: [{ reason: 'gone', retryDelay: 5 }, 1] },
    { code: 404, details: [{ reason: 'gone' }, {}] },
  ],
  [null, {}],
  [7, {}],
])('takes what it knows of %j', (value, problem) => {
  expect(readProblem(value)).toEqual(problem)
})

it('looks at a few details, however many a provider sends', () => {
  let looks = 0
  const details = new Proxy(Array(1_000_000).fill(0), {
    get: (list, name) => {
      looks++
      return Reflect.get(list, name)
    },
  })
  readProblem({ details })
  expect(looks).toBeLessThan(100)
})
