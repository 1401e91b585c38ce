import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { inUse, requireCapacity, UNBOUNDED } from './admission.ts'
import { admissionRow } from './lifecycle.fixture.ts'
import {
  outcomeOf,
  SANDBOX_STATES,
  STATES,
  TRANSITIONS,
  VERBS,
  verbFor,
  verbInProgress,
} from './transitions.ts'

const STATUSES = ['passed', 'failed', 'indeterminate'] as const
/** The states in which no transition is in progress. */
const SETTLED = SANDBOX_STATES.filter((state) => VERBS.every((verb) => TRANSITIONS[verb].during !== state))

describe('the table of transitions', () => {
  it('leads from settled states through one in progress to settled ones, or to the end of the record', () => {
    for (const verb of VERBS) {
      const { from, already, during } = TRANSITIONS[verb]
      expect(SETTLED).not.toContain(during)
      for (const state of [...from, ...already]) expect(SETTLED).toContain(state)
      expect(from.filter((state) => already.includes(state))).toEqual([])
      for (const status of STATUSES)
        for (const state of from.length === 0 ? [null] : from)
          expect([...SETTLED, 'removed']).toContain(outcomeOf(verb, status, state))
    }
  })

  it('identifies the transition in progress by its state and by the state in which it began', () => {
    for (const verb of VERBS)
      for (const state of TRANSITIONS[verb].from)
        expect(verbInProgress(TRANSITIONS[verb].during, state)).toBe(verb)
    expect(verbInProgress('creating', null)).toBe('create')
    expect(verbInProgress('deleting', null)).toBe('delete')
    for (const state of SETTLED) expect(verbInProgress(state, null)).toBeUndefined()
  })

  it('allows resume and delete in every settled state', () => {
    expect(SETTLED.toSorted()).toEqual(['lost', 'paused', 'running', 'stopped'])
    expect(TRANSITIONS.delete.from.toSorted()).toEqual(SETTLED.toSorted())
    for (const state of SETTLED) {
      const { from, already } = TRANSITIONS[verbFor('resume', state)]
      expect([...from, ...already]).toContain(state)
    }
  })
})

describe('admission', () => {
  const amount = fc.integer({ min: 1, max: 1000 })
  const limits = fc.record(
    { memoryBytes: amount, processes: fc.constant(1), cpuMillis: amount, diskBytes: amount },
    { requiredKeys: ['memoryBytes', 'processes'] },
  )

  it('accepts what fits, and nothing else', () => {
    const rows = fc.array(fc.tuple(fc.constantFrom(...SANDBOX_STATES), limits), { maxLength: 8 })
    const most = fc.record({
      total: fc.integer({ min: 1, max: 9 }),
      running: fc.integer({ min: 1, max: 9 }),
      cpuMillis: fc.integer({ min: 1, max: 3000 }),
      memoryBytes: fc.integer({ min: 1, max: 3000 }),
      diskBytes: fc.integer({ min: 1, max: 3000 }),
    })
    fc.assert(
      fc.property(
        rows,
        limits,
        most,
        fc.constantFrom('create' as const, 'resume' as const),
        (all, one, limit, what) => {
          const before = all.map(([state, its]) => admissionRow(state, its))
          const state = what === 'create' ? 'creating' : 'resuming'
          const after = inUse([
            ...before,
            admissionRow(state, what === 'create' ? one : { ...one, diskBytes: 0 }),
          ])
          // A resumed sandbox is already part of the earlier count and disk size.
          if (what === 'resume') after.total--
          const grows = (name: keyof typeof limit) => after[name] > inUse(before)[name]
          const fits = (Object.keys(limit) as (keyof typeof limit)[]).every(
            (name) => !grows(name) || after[name] <= limit[name],
          )
          const ask = () => requireCapacity(before, one, limit, what)
          if (fits) ask()
          else expect(ask).toThrow(expect.objectContaining({ code: 'limit_reached' }))
        },
      ),
    )
  })

  it('names the limit, the amounts, and the sandbox that was idle for longest', () => {
    const requested = { memoryBytes: 5, processes: 1 }
    const rows = [
      admissionRow('running', requested, { name: 'busy', active_at_ms: 20 }),
      admissionRow('running', requested, { name: 'quiet', active_at_ms: 10 }),
      admissionRow('stopped', requested, { name: 'off', active_at_ms: 1 }),
    ]
    expect(() => requireCapacity(rows, requested, { ...UNBOUNDED, memoryBytes: 12 }, 'resume')).toThrow(
      expect.objectContaining({
        code: 'limit_reached',
        details: { limit: 'memory_bytes', asked: 5, in_use: 10, most: 12 },
        hint: expect.stringContaining('craik sandbox stop quiet'),
      }),
    )
    expect(() => requireCapacity(rows, requested, { ...UNBOUNDED, total: 3 }, 'create')).toThrow(
      expect.objectContaining({
        details: { limit: 'sandboxes', asked: 1, in_use: 3, most: 3 },
        hint: expect.stringContaining('craik sandbox delete off'),
      }),
    )
    expect(STATES.stopped.usesCapacity).toBe(false)
  })
})
