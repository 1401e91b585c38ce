import { describe, expect, it } from 'vitest'
import { createTally } from './paced-tally.ts'

const PACE = { everyMs: 3_600_000, maxMs: 3_600_000 }

/** Reports to a list. The reports with these numbers fail, after a moment. */
function scene(...failing: readonly number[]) {
  const reported: number[] = []
  let reports = 0
  const report = async (count: number) => {
    const number = ++reports
    await new Promise((done) => setImmediate(done))
    if (failing.includes(number)) throw new Error('the disk is full')
    reported.push(count)
  }
  return { reported, tally: createTally((one: number, other: number) => one + other, report, PACE) }
}

describe('a tally that is closed', () => {
  it('reports the rest', async () => {
    const { reported, tally } = scene()
    for (let i = 0; i < 5; i++) tally.add(1)
    await tally.close()
    expect(reported).toEqual([1, 4])
  })

  it('reports again what failed while it closed', async () => {
    const { reported, tally } = scene(2)
    for (let i = 0; i < 5; i++) tally.add(1)
    await tally.close()
    expect(reported).toEqual([1, 4])
  })

  it('reports again what was about to fail before', async () => {
    const { reported, tally } = scene(1)
    tally.add(1)
    await tally.close()
    expect(reported).toEqual([1])
  })

  it('ends when nothing can be reported', async () => {
    const { reported, tally } = scene(1, 2, 3, 4)
    tally.add(1)
    await tally.close()
    expect(reported).toEqual([])
  })
})
