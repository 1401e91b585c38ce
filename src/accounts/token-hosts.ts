/** The hosts that issue and renew logins. A program in a sandbox with sentinels has no reason to reach them. */
import { claudeCodeFormat } from './logins/claude-code.ts'
import { codexFormat } from './logins/codex.ts'
import { geminiFormat } from './logins/gemini.ts'
import { kimiFormat } from './logins/kimi.ts'
import type { Overrides } from './overrides.ts'

/** The hosts that present programs use, the host of earlier Claude Code releases, and Google’s login page. */
const KNOWN = [
  ...[claudeCodeFormat, codexFormat, geminiFormat, kimiFormat].map(({ tokenUrl }) => hostOf(tokenUrl)),
  'console.anthropic.com',
  'accounts.google.com',
]

/** `host` is in canonical form: lower case, without port or final dot. */
export function tokenHosts(overrides: Overrides): (host: string) => boolean {
  const named = Object.values(overrides).flatMap(({ token_url }) =>
    token_url === undefined ? [] : [hostOf(token_url)],
  )
  const hosts = new Set([...KNOWN, ...named])
  return (host) => hosts.has(host)
}

function hostOf(url: string): string {
  return new URL(url).hostname
}
