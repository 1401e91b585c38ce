/** Which failures of a sandbox are worth waiting for. */
import { expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { LostConnection } from './transport.ts'

it('a sandbox that does not answer counts as a lost connection', () => {
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  expect(new RetryDeadlines().checkError(silent)).toBeInstanceOf(LostConnection)
})

it('a sandbox that answers no has answered: nothing is tried again', () => {
  const no = new CraikError('boundary_failed', 'failed inside', { details: { inside: 'internal' } })
  expect(new RetryDeadlines().checkError(no)).toBe(no)
})

it('any other error is what it is', () => {
  const missing = new CraikError('not_found', 'does not exist')
  expect(new RetryDeadlines().checkError(missing)).toBe(missing)
})

it('a sandbox that stays out of reach is an error after half a minute, however often it is asked', () => {
  let nowMs = 1_000_000
  const deadlines = new RetryDeadlines(() => nowMs)
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  for (const end = nowMs + 30_000; nowMs <= end; nowMs += 5_000)
    expect(deadlines.checkError(silent)).toBeInstanceOf(LostConnection)
  expect(deadlines.checkError(silent)).toBe(silent)
})

it('a sandbox that was in reach for a long quiet time is waited for anew', () => {
  let nowMs = 1_000_000
  const deadlines = new RetryDeadlines(() => nowMs)
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  for (let restart = 0; restart < 3; restart++) {
    expect(deadlines.checkError(silent)).toBeInstanceOf(LostConnection)
    nowMs += 10 * 60_000
  }
})
