import { describe, expect, it } from 'vitest'
import { SupervisorTimeouts } from './timeouts.ts'

function patienceAt(clock: { ms: number }): SupervisorTimeouts {
  return new SupervisorTimeouts(() => clock.ms)
}

describe('patience', () => {
  it('counts the time in which one and the same is waited for', () => {
    const clock = { ms: 1_000 }
    const patience = patienceAt(clock)
    for (let i = 0; i < 5; i++) {
      patience.waitFor('first')
      clock.ms += 100
    }
    expect(patience.withThisOneMs).toBe(400)
  })

  it('begins anew with another, and with nobody, while the time for all of them goes on', () => {
    const clock = { ms: 0 }
    const patience = patienceAt(clock)
    for (const whom of ['first', 'first', 'second', undefined, undefined, 'first']) {
      clock.ms += 100
      patience.waitFor(whom)
    }
    expect(patience.withThisOneMs).toBe(0)
    expect(patience.withAllMs).toBe(600)
  })

  it('does not hold against anybody that we were stopped ourselves', () => {
    const clock = { ms: 0 }
    const patience = patienceAt(clock)
    patience.waitFor('first')
    clock.ms += 3_600_000
    patience.waitFor('first')
    expect(patience.withThisOneMs).toBeLessThan(10_000)
    expect(patience.withAllMs).toBeLessThan(10_000)
  })
})
