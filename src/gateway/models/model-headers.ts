/** The headers that cross the gateway. All others are dropped, above all credentials of any kind. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Credential } from '../../accounts/account.ts'
import type { CredentialMask } from '../../lib/credential-mask.ts'

/** Headers to the provider. They describe the request, never its sender. */
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

/** The response formats that the gateway reads. If a client requested another one, the provider would seem to fail. */
const ACCEPTED = /^(?:application\/json|text\/event-stream|\*\/\*)$/

/** Headers to the client. It needs them to read the response and to obey rate limits. */
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

/** Adds the credential: its headers replace the client's, and merged ones are added to them. */
export function headersUp(
  sent: IncomingHttpHeaders,
  credential: Pick<Credential, 'headers' | 'mergedHeaders'> | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(sent))
    if (isNamed(name, ASKED, ASKED_PREFIXES) && value !== undefined)
      headers[name] = Array.isArray(value) ? value.join(', ') : value
  for (const [name, value] of Object.entries(credential?.mergedHeaders ?? {}))
    headers[name] = mergeHeader(headers[name], value)
  return {
    ...headers,
    accept: filterAcceptedTypes(sent.accept),
    'content-type': 'application/json',
    'accept-encoding': 'identity',
    ...credential?.headers,
  }
}

function filterAcceptedTypes(accept: string | undefined): string {
  const types = accept?.split(',').map((type) => type.trim()) ?? []
  return types.filter((type) => ACCEPTED.test(type)).join(', ') || '*/*'
}

/** Masks the credential if a header contains it. */
export function headersDown(
  answered: IncomingHttpHeaders,
  mask: Pick<CredentialMask, 'maskText'>,
): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(answered))
    if (isNamed(name, ANSWERED, ANSWERED_PREFIXES) && value !== undefined)
      headers[name] = mask.maskText(Array.isArray(value) ? value.join(', ') : value)
  return headers
}

function isNamed(name: string, names: ReadonlySet<string>, prefixes: readonly string[]): boolean {
  return names.has(name) || prefixes.some((prefix) => name.startsWith(prefix))
}

function mergeHeader(provided: string | undefined, added: string): string {
  const values = (provided ?? '')
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')
  return [...new Set([...values, ...added.split(',').map((value) => value.trim())])].join(',')
}
