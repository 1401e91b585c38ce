/** Which headers cross the gateway. What is not named here stays on its side, credentials of any kind above all. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Credential } from '../../accounts/account.ts'
import type { CredentialMask } from '../../lib/credential-mask.ts'

/** To the provider: what tells it about the request, never who is asking. */
const ASKED = new Set([
  'user-agent',
  'anthropic-version',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
  'openai-beta',
  'originator',
  'session_id',
  'session-id',
  'conversation_id',
  'thread-id',
  'version',
  'http-referer',
  'x-title',
  'x-app',
  'x-goog-api-client',
  'x-client-request-id',
  'x-claude-code-session-id',
])
const ASKED_PREFIXES = ['x-stainless-', 'x-codex-', 'x-msh-'] as const

/** The forms of an answer that the gateway reads; asked for another, a provider would seem to fail. */
const ACCEPTED = /^(?:application\/json|text\/event-stream|\*\/\*)$/

/** To the client: what it needs to read the answer and to wait as it is told. */
const ANSWERED = new Set([
  'content-type',
  'request-id',
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'openai-model',
  'openai-version',
  'openai-processing-ms',
  'x-reasoning-included',
  'x-models-etag',
])
const ANSWERED_PREFIXES = ['anthropic-ratelimit-', 'x-ratelimit-', 'x-codex-'] as const

/** With the credential in: its headers replace whatever was there, merged ones are added to it. */
export function headersUp(
  sent: IncomingHttpHeaders,
  credential: Pick<Credential, 'headers' | 'mergedHeaders'> | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(sent))
    if (isNamed(name, ASKED, ASKED_PREFIXES) && value !== undefined)
      headers[name] = Array.isArray(value) ? value.join(', ') : value
  for (const [name, value] of Object.entries(credential?.mergedHeaders ?? {}))
    headers[name] = merged(headers[name], value)
  return {
    ...headers,
    accept: acceptedOf(sent.accept),
    'content-type': 'application/json',
    'accept-encoding': 'identity',
    ...credential?.headers,
  }
}

function acceptedOf(accept: string | undefined): string {
  const types = accept?.split(',').map((type) => type.trim()) ?? []
  return types.filter((type) => ACCEPTED.test(type)).join(', ') || '*/*'
}

/** With the credential masked, should it be in one. */
export function headersDown(
  answered: IncomingHttpHeaders,
  mask: Pick<CredentialMask, 'text'>,
): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(answered))
    if (isNamed(name, ANSWERED, ANSWERED_PREFIXES) && value !== undefined)
      headers[name] = mask.text(Array.isArray(value) ? value.join(', ') : value)
  return headers
}

function isNamed(name: string, names: ReadonlySet<string>, prefixes: readonly string[]): boolean {
  return names.has(name) || prefixes.some((prefix) => name.startsWith(prefix))
}

function merged(given: string | undefined, added: string): string {
  const values = (given ?? '')
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')
  return [...new Set([...values, ...added.split(',').map((value) => value.trim())])].join(',')
}
