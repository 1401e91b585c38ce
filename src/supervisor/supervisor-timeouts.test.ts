import { describe, expect, it } from 'vitest'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

function timeoutsAt(clock: { ms: number }): SupervisorTimeouts {
  return new SupervisorTimeouts(() => clock.ms)
}

describe('patience', () => {
  it('counts the time in which one and the same is waited for', () => {
    const clock = { ms: 1_000 }
    const timeouts = timeoutsAt(clock)
    for (let i = 0; i < 5; i++) {
      timeouts.waitFor('first')
      clock.ms += 100
    }
    expect(timeouts.withThisOneMs).toBe(400)
  })

  it('begins anew with another, and with nobody, while the time for all of them goes on', () => {
    const clock = { ms: 0 }
    const timeouts = timeoutsAt(clock)
    for (const whom of ['first', 'first', 'second', undefined, undefined, 'first']) {
      clock.ms += 100
      timeouts.waitFor(whom)
    }
    expect(timeouts.withThisOneMs).toBe(0)
    expect(timeouts.withAllMs).toBe(600)
  })

  it('does not hold against anybody that we were stopped ourselves', () => {
    const clock = { ms: 0 }
    const timeouts = timeoutsAt(clock)
    timeouts.waitFor('first')
    clock.ms += 3_600_000
    timeouts.waitFor('first')
    expect(timeouts.withThisOneMs).toBeLessThan(10_000)
    expect(timeouts.withAllMs).toBeLessThan(10_000)
  })
})
