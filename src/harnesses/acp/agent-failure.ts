/**
 * Creates the error for a failed agent. It reads the cause from the agent's messages, because all agents word it
 * differently and some exit with 0.
 */
import { CraikError } from '../../errors.ts'

const MAX_COMPLAINT = 600
/** The protocol's error code for a missing login. */
const AUTH_REQUIRED = -32000

/** Lines without information between the lines that matter: stack frames and empty lines. */
const NOISE = /^\s*(?:at |\^|$)/

export function agentFailure(harness: string, what: string, complaint: string, code?: number): CraikError {
  const output = complaint
    .split('\n')
    .filter((line) => !NOISE.test(line))
    .join(' ')
    .slice(-MAX_COMPLAINT)
    .trim()
  const words = output === '' || what.includes(output) ? what : `${what}: ${output}`
  return new CraikError(kindOf(words, code), `${harness}: ${words}`, {
    details: { harness, ...(code !== undefined && { code }) },
  })
}

function kindOf(
  words: string,
  code: number | undefined,
): 'no_login' | 'quota_exceeded' | 'budget_exceeded' | 'harness_failed' {
  if (/\b402\b|craik: budget/i.test(words)) return 'budget_exceeded'
  if (/\b429\b|rate.?limit|too many requests/i.test(words)) return 'quota_exceeded'
  const isAboutLogin = /\b401\b|unauthori[sz]ed|not logged in|authentication (?:required|failed)|\blog ?in\b/i
  if (code === AUTH_REQUIRED || isAboutLogin.test(words)) return 'no_login'
  return 'harness_failed'
}
