import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ACTIVE_STATUSES,
  MAX_SESSION_RECEIPTS,
  SESSION_CHANGES,
  SESSION_STATUSES,
  type Session,
  withReceipts,
} from './agent-session.ts'

describe('the status changes of a session', () => {
  it('never lead from a status to itself', () => {
    for (const status of SESSION_STATUSES) expect(SESSION_CHANGES[status]).not.toContain(status)
  })

  it('reach every status from a new session', () => {
    const reached = new Set(['starting'])
    for (const status of reached) {
      for (const next of SESSION_CHANGES[status as keyof typeof SESSION_CHANGES]) reached.add(next)
    }
    expect([...reached].sort()).toEqual([...SESSION_STATUSES].sort())
  })

  it('require a session at rest to become idle before it runs', () => {
    expect(SESSION_CHANGES.stopped).toEqual(['idle'])
    expect(SESSION_CHANGES.failed).not.toContain('running')
    expect(SESSION_CHANGES.stopping).toEqual(['stopped'])
  })

  it('can return every inactive session to idle', () => {
    for (const status of SESSION_STATUSES) {
      if (!ACTIVE_STATUSES.includes(status)) expect(SESSION_CHANGES[status]).toContain('idle')
    }
  })
})

describe('the receipts that a session lists', () => {
  const empty = { receipt_ids: [], receipt_count: 0 } as unknown as Session

  it('are the newest, include the whole last prompt, and count all', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 8 }), (sizes) => {
        let session = empty
        let n = 0
        for (const size of sizes) {
          const ids = Array.from({ length: size }, () => `rcpt_${n++}`)
          session = withReceipts(session, ids, size)
          expect(session.receipt_ids.slice(-size)).toEqual(ids)
          expect(session.receipt_ids.length).toBeLessThanOrEqual(Math.max(MAX_SESSION_RECEIPTS, size))
        }
        expect(session.receipt_count).toBe(n)
      }),
    )
  })
})
