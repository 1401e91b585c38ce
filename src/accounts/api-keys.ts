/** Plain API keys: their variable names, their vendors, the addresses they are sent to, and the header of each. */
import type { AccountFamily } from './account.ts'

interface KeyKind {
  readonly name: string
  readonly family: AccountFamily
  readonly baseUrl: string
}

export const BASE_URLS = {
  anthropic: 'https://api.anthropic.com/v1',
  openai: 'https://api.openai.com/v1',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
  openrouter: 'https://openrouter.ai/api/v1',
  kimi: 'https://api.kimi.com/coding/v1',
  github: 'https://api.github.com',
} as const satisfies Record<AccountFamily, string>

/**
 * The names of the provider catalogue come first. `GITHUB_TOKEN`, `GH_TOKEN` and `GH_ENTERPRISE_TOKEN` are left out on
 * purpose: a token that a shell or a CI job got for one purpose is not a login for another.
 */
export const API_KEYS: readonly KeyKind[] = [
  { name: 'ANTHROPIC_API_KEY', family: 'anthropic', baseUrl: BASE_URLS.anthropic },
  { name: 'OPENAI_API_KEY', family: 'openai', baseUrl: BASE_URLS.openai },
  { name: 'GEMINI_API_KEY', family: 'gemini', baseUrl: BASE_URLS.gemini },
  { name: 'OPENROUTER_API_KEY', family: 'openrouter', baseUrl: BASE_URLS.openrouter },
  { name: 'KIMI_API_KEY', family: 'kimi', baseUrl: BASE_URLS.kimi },
  { name: 'MOONSHOT_API_KEY', family: 'kimi', baseUrl: 'https://api.moonshot.ai/v1' },
]

export function keyHeaders(family: AccountFamily): (key: string) => Readonly<Record<string, string>> {
  if (family === 'anthropic') return (key) => ({ 'x-api-key': key })
  if (family === 'gemini') return (key) => ({ 'x-goog-api-key': key })
  return (key) => ({ authorization: `Bearer ${key}` })
}

/** Longer values, or values with other characters, are not keys and would not fit into a header. */
export function isHeaderSafe(key: string): boolean {
  return /^[\x21-\x7e]{1,8192}$/.test(key)
}
