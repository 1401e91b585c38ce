/** Reads the members of JSON-like texts: whole documents, log lines, examples in a page, strings in strings. */
import { isPlaceholder } from './rule.ts'

export interface Member {
  readonly start: number
  readonly key: string
  /**
   * The content of a string, or the text of a list or an object up to its end. Absent for numbers, null, true and
   * false.
   */
  readonly content: string | undefined
  readonly form: 'string' | 'list' | 'object' | 'plain'
}

/** Longer values are read up to this length, which is enough to find out whether they have content. */
const READ_MAX = 4_000

/** Yields every member with one of these keys, quoted by `"`, `'`, or `\"` at any depth of strings in strings. */
export function* members(text: string, keys: readonly string[]): Iterable<Member> {
  const names = keys.map((key) => key.split('_').join('[_-]?')).join('|')
  const pattern = new RegExp(String.raw`(\\*["'])(${names})\1\s*:\s*`, 'gi')
  for (const match of text.matchAll(pattern)) {
    const quote = match[1]!
    const at = match.index + match[0].length
    yield { start: match.index, key: match[2]!, ...valueAt(text, at, quote) }
  }
}

function valueAt(text: string, at: number, quote: string): Pick<Member, 'content' | 'form'> {
  const value = text.slice(at, at + READ_MAX)
  if (value.startsWith(quote)) {
    const end = closingQuote(value, quote)
    return { form: 'string', content: value.slice(quote.length, end === -1 ? undefined : end) }
  }
  if (value.startsWith('[')) return { form: 'list', content: contentBetween(value, '[', ']') }
  if (value.startsWith('{')) return { form: 'object', content: contentBetween(value, '{', '}') }
  return { form: 'plain', content: undefined }
}

/** Returns the next quote at the same depth. A quote with another backslash before it belongs to the content. */
function closingQuote(value: string, quote: string): number {
  let at = value.indexOf(quote, quote.length)
  while (at > 0 && value[at - 1] === '\\') at = value.indexOf(quote, at + 1)
  return at
}

/** Returns the text between the first bracket and the one that closes it. */
export function contentBetween(value: string, open: string, close: string): string {
  let depth = 0
  for (let at = 0; at < value.length; at++) {
    if (value[at] === open) depth++
    else if (value[at] === close && --depth === 0) return value.slice(1, at)
  }
  return value.slice(1)
}

/** Returns whether a member has a value that is not a placeholder. */
export function hasContent({ content, form }: Member): boolean {
  if (content === undefined) return false
  if (form === 'string') return !isPlaceholder(content)
  return content.split(/[,:]/).some((part) => !isPlaceholder(part.trim().replace(/^\\*["']|\\*["']$/g, '')))
}
