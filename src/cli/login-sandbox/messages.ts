/** Formats what `craik up` prints about logins: which ones it found, and which problems they will have soon. */
import type { Account } from '../../accounts/account.ts'
import type { ProbeProblem } from '../../accounts/probe-result.ts'
import { selectPreferredAccounts } from '../../accounts/sentinel-files.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { IdentityCheck } from '../../login-sandbox/identity.ts'
import type { LoginSandboxSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { printable } from '../output.ts'

const SOON_MS = 24 * 3600_000

/** The programs that the line always names, with or without a login. */
const PROGRAMS = [
  { name: 'claude-code', family: 'anthropic' },
  { name: 'codex', family: 'openai' },
  { name: 'gemini', family: 'gemini' },
  { name: 'kimi', family: 'kimi' },
  { name: 'openrouter', family: 'openrouter' },
  { name: 'github', family: 'github' },
] as const

/** Lists the logins that were found, then those that are missing. */
export function accountsLine(accounts: readonly Account[], problems: readonly ProbeProblem[]): string {
  const chosen = selectPreferredAccounts(accounts)
  const found: string[] = []
  const missing: string[] = []
  for (const { name, family } of PROGRAMS) {
    const account = chosen.find((one) => one.family === family)
    const problem = problems.find(({ id }) => id === name)
    if (account !== undefined) {
      const plan = account.plan === undefined ? undefined : `(${account.plan})`
      const shown = account.kind === 'api_key' && family !== 'github' ? account.id : name
      found.push([shown, '✓', account.who, plan].filter((part) => part !== undefined).join(' '))
    } else if (problem !== undefined)
      found.push(`${name} ✗ ${problem.ended ? 'has expired' : 'cannot be read'}`)
    else missing.push(name)
  }
  const rest = missing.length === 0 ? [] : [`– not logged in: ${missing.join(', ')}`]
  return [...found, ...rest].map(printable).join('   ')
}

/**
 * Returns warnings, which never stop a command. A login that the gateway renews does not expire, so there is no warning
 * about it.
 */
export function warningsOf(
  accounts: readonly Account[],
  problems: readonly ProbeProblem[],
  github: IdentityCheck | undefined,
  { credentials, expectedLogin: expected }: LoginSandboxSettings,
  nowMs: number,
): string[] {
  const ends = (name: string, expiresAtMs: number | undefined) =>
    expiresAtMs !== undefined && expiresAtMs - nowMs < SOON_MS
      ? [`${name} expires ${expiresAtMs <= nowMs ? 'now' : `in ${formatDuration(expiresAtMs - nowMs)}`}`]
      : []
  const identity = github?.kind === 'known' ? github.identity : undefined
  return [
    ...(credentials === 'forward' ? selectPreferredAccounts(accounts) : []).flatMap(({ id, expiresAtMs }) =>
      ends(id, expiresAtMs),
    ),
    ...ends('the GitHub token', identity?.expiresAtMs),
    ...(identity?.missingScopes?.length
      ? [
          `the GitHub token lacks ${identity.missingScopes.join(', ')}:  gh auth refresh -s ${identity.missingScopes.join(',')}`,
        ]
      : []),
    ...(github?.kind === 'none' && expected !== undefined
      ? [`no GitHub login on this machine: cannot verify that you are ${expected}`]
      : []),
    ...(github?.kind === 'unknown' ? [`could not identify the GitHub login: ${github.reason}`] : []),
    ...problems.filter(({ ended }) => ended).map(({ id, hint }) => `${id}: ${hint}`),
  ]
}
