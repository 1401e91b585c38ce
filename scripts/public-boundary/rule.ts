/** What a rule of the public boundary is: a name, and where in a text it is broken. */

/** In code a bare word after a colon is a name or a type; on a page it may be a value. */
export type TextForm = 'page' | 'code'

export interface Breach {
  readonly start: number
  /** What was found, in words that may be printed: a secret is named by its kind, never shown. */
  readonly what: string
}

export interface Rule {
  readonly name: string
  /** What to write instead. */
  readonly instead: string
  find(text: string, form: TextForm): Iterable<Breach>
}

/** Stands where content would: nothing is given away. */
export function isPlaceholder(content: string): boolean {
  return /^(?:\s*|…|\.\.\.|\[REDACTED\]|<[^<>]*>|\$\{?[A-Z_]+\}?)$/.test(content)
}
