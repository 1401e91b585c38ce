import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { cacheSuccess } from './memoize.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

describe('a cached success', () => {
  function scene(...results: readonly (number | Error)[]) {
    let calls = 0
    const get = cacheSuccess(
      async () => {
        const result = results[calls++]
        if (result instanceof Error) throw result
        return result
      },
      (result) => result !== 0,
    )
    return { get, calls: () => calls }
  }

  it('is computed once, also for callers that ask at the same time', async () => {
    const { get, calls } = scene(1)
    expect(await Promise.all([get(), get()])).toEqual([1, 1])
    vi.advanceTimersByTime(3_600_000)
    expect(await get()).toBe(1)
    expect(calls()).toBe(1)
  })

  it('replaces an earlier failure, which is repeated for a few seconds at most', async () => {
    const { get, calls } = scene(0, 1)
    expect(await get()).toBe(0)
    vi.advanceTimersByTime(1_000)
    expect(await get()).toBe(0)
    expect(calls()).toBe(1)
    vi.advanceTimersByTime(5_000)
    expect(await get()).toBe(1)
  })

  it('is never an error', async () => {
    const { get } = scene(new Error('too many open files'), 1)
    await expect(get()).rejects.toThrow('too many open files')
    expect(await get()).toBe(1)
  })
})
