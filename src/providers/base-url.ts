/** The base URL of a provider, in a record or a setting. */
import { loopbackRefusal } from './local/loopback.ts'

/**
 * Returns why a base URL is refused, without repeating it. `undefined` when it is valid. A local provider's must be
 * loopback. Others must be https or loopback.
 */
export function checkBaseUrl(text: string, { local }: { readonly local: boolean }): string | undefined {
  const refusal = loopbackRefusal(text)
  if (refusal === undefined) return text.endsWith('/') ? 'must not end with a slash' : undefined
  if (local) return `must be loopback for a local provider: ${refusal}`
  if (!/^https:\/\/[^\s\\@?#]+$/.test(text) || /[^\x21-\x7e]/.test(text) || !URL.canParse(text))
    return 'must be an https URL without user name, query or fragment (http only on loopback)'
  if (text.endsWith('/')) return 'must not end with a slash'
  const { href } = new URL(text)
  return href === text || href === `${text}/`
    ? undefined
    : 'must be normalized: lower-case host, no default port, no escapes'
}
