/** Token counts as providers report them: whole, plausible numbers, or none at all. */
import type { Usage } from '../conversation.ts'
import { TOKENS_MAX } from './limits.ts'

interface Counts {
  readonly input: unknown
  readonly cacheRead: unknown
  readonly cacheWrite: unknown
  readonly output: unknown
}

/**
 * Measured usage, or `absent` when any of the counts cannot be one. All input includes both cached parts, and is never
 * zero: no request is empty, so a server that says so did not count. An answer may well be.
 */
export function measured(counts: Counts): Usage {
  const { input, cacheRead, cacheWrite, output } = counts
  if (!isCount(input) || !isCount(cacheRead) || !isCount(cacheWrite) || !isCount(output))
    return { source: 'absent' }
  if (input === 0 || cacheRead + cacheWrite > input) return { source: 'absent' }
  return {
    source: 'measured',
    inputTokens: input,
    cacheReadTokens: cacheRead,
    cacheWriteTokens: cacheWrite,
    outputTokens: output,
  }
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= TOKENS_MAX
}
