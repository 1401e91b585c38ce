/** Parses `--timeout` of commands that run a job in a sandbox. */
import { CraikError } from '../errors.ts'
import { parseDuration } from '../lib/duration.ts'
import { LIMITS } from '../sidecar/protocol.ts'

/** Returns milliseconds. Refuses more than a job can run. */
export function parseTimeout(text: string): number {
  const ms = parseDuration(text, '--timeout')
  if (ms <= LIMITS.maxTimeoutMs) return ms
  throw new CraikError('usage', '--timeout is longer than a week', { hint: 'use at most 7d' })
}
