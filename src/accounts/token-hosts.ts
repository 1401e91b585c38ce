/** Where logins are issued and renewed: nothing in a sandbox that holds sentinels has any business there. */
import { claudeCodeFormat } from './logins/claude-code.ts'
import { codexFormat } from './logins/codex.ts'
import { geminiFormat } from './logins/gemini.ts'
import { kimiFormat } from './logins/kimi.ts'
import type { Overrides } from './overrides.ts'

/** Those that programs of today ask, the one that earlier releases of Claude Code do, and where Google’s logins begin. */
const KNOWN = [
  ...[claudeCodeFormat, codexFormat, geminiFormat, kimiFormat].map(({ tokenUrl }) => hostOf(tokenUrl)),
  'console.anthropic.com',
  'accounts.google.com',
]

/** `host` in its plain form: lower case, without port or final dot. */
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
