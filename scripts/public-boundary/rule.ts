/** A rule of the public boundary has a name, and finds the positions in a text that break it. */

/** In code, a bare word after a colon is a name or a type. On a page, it may be a value. */
export type TextForm = 'page' | 'code'

export interface Breach {
  readonly start: number
  /** The finding, in words that can be printed: the kind of a secret, never the secret. */
  readonly what: string
}

export interface Rule {
  readonly name: string
  /** The text to write instead. */
  readonly instead: string
  find(text: string, form: TextForm): Iterable<Breach>
}

/** Returns whether a text is only a placeholder for content and reveals nothing. */
export function isPlaceholder(content: string): boolean {
  return /^(?:\s*|…|\.\.\.|\[REDACTED\]|<[^<>]*>|\$\{?[A-Z_]+\}?)$/.test(content)
}
