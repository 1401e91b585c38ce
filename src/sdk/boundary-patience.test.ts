/** Which failures of a sandbox are worth waiting for. */
import { expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { BoundaryPatience } from './boundary-patience.ts'
import { LostConnection } from './transport.ts'

it('a sandbox that does not answer counts as a lost connection', () => {
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  expect(new BoundaryPatience().judge(silent)).toBeInstanceOf(LostConnection)
})

it('a sandbox that answers no has answered: nothing is tried again', () => {
  const no = new CraikError('boundary_failed', 'failed inside', { details: { inside: 'internal' } })
  expect(new BoundaryPatience().judge(no)).toBe(no)
})

it('any other error is what it is', () => {
  const missing = new CraikError('not_found', 'does not exist')
  expect(new BoundaryPatience().judge(missing)).toBe(missing)
})
