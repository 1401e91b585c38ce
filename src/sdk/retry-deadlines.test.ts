/** Decides which failures of a sandbox are worth waiting for. */
import { expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { LostConnection } from './transport.ts'

it('a sandbox that does not answer counts as a lost connection', () => {
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  expect(new RetryDeadlines().checkError(silent)).toBeInstanceOf(LostConnection)
})

it('a sandbox that answers with an error has answered: nothing is retried', () => {
  const no = new CraikError('boundary_failed', 'failed inside', { details: { inside: 'internal' } })
  expect(new RetryDeadlines().checkError(no)).toBe(no)
})

it('any other error stays as it is', () => {
  const missing = new CraikError('not_found', 'does not exist')
  expect(new RetryDeadlines().checkError(missing)).toBe(missing)
})

it('a sandbox that stays unreachable is an error after half a minute, however often it gets a request', () => {
  let nowMs = 1_000_000
  const deadlines = new RetryDeadlines(() => nowMs)
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  for (const end = nowMs + 30_000; nowMs <= end; nowMs += 5_000)
    expect(deadlines.checkError(silent)).toBeInstanceOf(LostConnection)
  expect(deadlines.checkError(silent)).toBe(silent)
})

it('a sandbox that was reachable for a long quiet time gets a new deadline', () => {
  let nowMs = 1_000_000
  const deadlines = new RetryDeadlines(() => nowMs)
  const silent = new CraikError('boundary_failed', 'the sandbox did not answer')
  for (let restart = 0; restart < 3; restart++) {
    expect(deadlines.checkError(silent)).toBeInstanceOf(LostConnection)
    nowMs += 10 * 60_000
  }
})
