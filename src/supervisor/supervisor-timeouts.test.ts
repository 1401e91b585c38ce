import { describe, expect, it } from 'vitest'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

function timeoutsAt(clock: { ms: number }): SupervisorTimeouts {
  return new SupervisorTimeouts(() => clock.ms)
}

describe('supervisor timeouts', () => {
  it('counts the time of waiting for the same process', () => {
    const clock = { ms: 1_000 }
    const timeouts = timeoutsAt(clock)
    for (let i = 0; i < 5; i++) {
      timeouts.waitFor('first')
      clock.ms += 100
    }
    expect(timeouts.sameProcessMs).toBe(400)
  })

  it('restarts the count for another process and for none, while the total continues', () => {
    const clock = { ms: 0 }
    const timeouts = timeoutsAt(clock)
    for (const whom of ['first', 'first', 'second', undefined, undefined, 'first']) {
      clock.ms += 100
      timeouts.waitFor(whom)
    }
    expect(timeouts.sameProcessMs).toBe(0)
    expect(timeouts.totalMs).toBe(600)
  })

  it('does not count the time in which this process was suspended', () => {
    const clock = { ms: 0 }
    const timeouts = timeoutsAt(clock)
    timeouts.waitFor('first')
    clock.ms += 3_600_000
    timeouts.waitFor('first')
    expect(timeouts.sameProcessMs).toBeLessThan(10_000)
    expect(timeouts.totalMs).toBeLessThan(10_000)
  })
})
