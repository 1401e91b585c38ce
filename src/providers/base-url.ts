/** The address of a provider, as a record or a setting may state it. */
import { loopbackRefusal } from './local/loopback.ts'

/**
 * Why an address is refused, without repeating it; undefined when it is fine. A local one is loopback; any other is
 * https, or loopback too.
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
