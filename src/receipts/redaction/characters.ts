/** Character classes and token edges. Table lookups keep every rule linear, because nothing backtracks. */

export type Alphabet = Uint8Array

/**
 * Returns the characters that a one-character pattern accepts. The character 128 decides for everything beyond ASCII.
 */
export function alphabet(member: RegExp): Alphabet {
  return Uint8Array.from({ length: 129 }, (_, code) => (member.test(String.fromCharCode(code)) ? 1 : 0))
}

export function isMember(set: Alphabet, code: number): boolean {
  return set[Math.min(code, 128)] === 1
}

export const ALPHANUMERIC = alphabet(/[A-Za-z0-9]/)
export const SLUG = alphabet(/[A-Za-z0-9_-]/)

/** Returns the first index at or after `from` whose character is outside the alphabet. */
export function runEnd(text: string, from: number, set: Alphabet, limit = text.length): number {
  let at = from
  while (at < limit && isMember(set, text.charCodeAt(at))) at++
  return at
}

/** Returns the start of the run of alphabet characters that ends just before `from`, at least `floor`. */
export function runStart(text: string, from: number, set: Alphabet, floor = 0): number {
  let at = from
  while (at > floor && isMember(set, text.charCodeAt(at - 1))) at--
  return at
}

const ESCAPE_BEFORE = /(?:\\[abefnrtv0]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\[[0-9;]{0,12}m)$/

/**
 * Returns whether a token can begin at this index: after anything but a letter or digit, or after an escape that ends
 * in one (`
 * ` in JSON, `%20` in a URL, the `m` of a colour code).
 */
export function startsToken(text: string, at: number): boolean {
  if (at === 0) return true
  if (!isMember(ALPHANUMERIC, text.charCodeAt(at - 1))) return true
  return ESCAPE_BEFORE.test(text.slice(Math.max(0, at - 16), at))
}
