/** Finds where the value after a key ends: quoted, escaped, unquoted or up to the end of the line. */
import { REDACTED_LABEL } from './findings.ts'
import { isPlaceholder } from './placeholders.ts'

export interface Extent {
  readonly start: number
  readonly end: number
}

const isQuote = (char: string | undefined): char is string => char === '"' || char === "'" || char === '`'

const COLOUR = /(?:\x1b|\\(?:u001b|x1b|033|e))\[[\d;]{0,12}m/iy

/** Skips spaces, tabs and colour codes between a key and its value. */
export function skipGap(text: string, from: number): number {
  let at = from
  for (;;) {
    const code = text.charCodeAt(at)
    if (code === 32 || code === 9 || code === 0xa0 || code === 0x200b || code === 0x3000) at++
    else if ((code === 27 || code === 92) && matches(COLOUR, text, at)) at = COLOUR.lastIndex
    else return at
  }
}

export interface Quote {
  readonly char: string
  /** The number of backslashes that escape the quote. */
  readonly depth: number
  readonly at: number
}

/** Returns an opening quote with the backslashes that escape it: `"`, `\"`, `\\\"`. */
export function openingQuote(text: string, from: number): Quote | undefined {
  let at = from
  while (at < from + 16 && text[at] === '\\') at++
  const char = text[at]
  return isQuote(char) ? { char, depth: at - from, at } : undefined
}

/** Returns the quote right before this index, if a string begins there. */
export function quoteBefore(text: string, index: number): Quote | undefined {
  const char = text[index - 1]
  return isQuote(char) ? { char, depth: text[index - 2] === '\\' ? 1 : 0, at: index - 1 } : undefined
}

/**
 * Returns the content of a quoted string, up to its closing quote or the end of the line. At each level of escaping,
 * the closing quote has one more run of backslashes than at the level before (0, 1, 3, 7…). A quote within the string
 * has more than that, and the remainder distinguishes the two.
 */
export function findQuotedExtent(text: string, quoteAt: number, depth: number): Extent {
  const quote = text[quoteAt]
  let backslashes = 0
  let at = quoteAt + 1
  for (; at < text.length; at++) {
    const char = text[at]
    if (char === '\n' || char === '\r') break
    if (char === quote && (backslashes < depth || (backslashes - depth) % (2 * (depth + 1)) === 0)) {
      const goesOn = depth === 0 ? findContinuedQuote(text, at) : at
      if (goesOn > at) {
        at = goesOn
        backslashes = 0
        continue
      }
      return { start: quoteAt + 1, end: Math.max(quoteAt + 1, at - Math.min(backslashes, depth)) }
    }
    backslashes = char === '\\' ? backslashes + 1 : 0
  }
  return { start: quoteAt + 1, end: at }
}

/**
 * SQL writes a quote within a string as `''`, shells as `'\\''`. Returns the last index of that, or `at` when the
 * string ends.
 */
function findContinuedQuote(text: string, at: number): number {
  if (text[at] !== "'") return at
  if (text[at + 1] === "'") return at + 1
  if (text.startsWith("\\''", at + 1)) return at + 3
  return text.startsWith("\\\\''", at + 1) ? at + 4 : at
}

/**
 * Returns the rest of the line, written or escaped, or the rest of the string that contains the line. Either the quote
 * before the key opened that string, or escaped quotes within it show it. An unescaped quote then ends it.
 */
export function lineExtent(text: string, from: number, opened?: Quote): Extent {
  let escaped = false
  let at = from
  for (; at < text.length; at++) {
    const char = text[at]!
    if (char === '\n' || char === '\r') break
    if (char === '\\') {
      const next = text[at + 1]
      if (next === 'n' || next === 'r') break
      if (isQuote(next)) {
        if (opened?.char === next && opened.depth > 0) break
        escaped = true
        at++
      }
    } else if (isQuote(char) && (opened === undefined ? escaped && char === '"' : opened.char === char)) break
  }
  return { start: from, end: Math.min(at, text.length) }
}

const NEXT_PARAMETER = /&(?:amp;)?(?:[\w.%[\]-]{1,40}=|&|\s|$)/y
const NEXT_PAIR = /[,;](?:\s|$|["'`\\]|[\w.-]{1,40}[ \t]?[=:])/y
const AFTER_QUOTE = /["'`](?:[\s,}\]):;\\>&|.]|$)/y
const ESCAPE = /\\[nrtuxbf"'`\\/]/y
const ENCODED_END = /%(?:26|22|27|20|0A|0D|7D|2C|3B)/iy

/**
 * Returns the extent of an unquoted value. Passwords can contain any character, so a delimiter ends the value only in
 * its usual context: a comma before another pair, an ampersand before another parameter, a quote that closes something.
 */
export function bareExtent(text: string, from: number, percentEncoded: boolean): Extent {
  let at = from
  scan: for (; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code <= 32 || code === 127 || code === 160) break
    switch (text[at]) {
      case '&':
        if (matches(NEXT_PARAMETER, text, at)) break scan
        break
      case ',':
      case ';':
        if (matches(NEXT_PAIR, text, at)) break scan
        break
      case '"':
      case "'":
      case '`':
        if (matches(AFTER_QUOTE, text, at)) break scan
        break
      case '\\':
        if (matches(ESCAPE, text, at)) break scan
        break
      case '<':
        if (text[at + 1] === '/' || at + 1 === text.length) break scan
        break
      case '%':
        if (percentEncoded && matches(ENCODED_END, text, at)) break scan
        break
    }
  }
  return { start: from, end: at }
}

/** Excludes punctuation that belongs to the sentence or structure around the value. */
export function trimExtent(text: string, { start, end }: Extent, punctuation: RegExp): Extent {
  let at = end
  while (at > start && punctuation.test(text[at - 1]!)) {
    if (endsInLabel(text, start, at) || (at - start <= 96 && isPlaceholder(text.slice(start, at)))) break
    at--
  }
  return { start, end: at }
}

function endsInLabel(text: string, start: number, end: number): boolean {
  return end - start >= REDACTED_LABEL.length && text.startsWith(REDACTED_LABEL, end - REDACTED_LABEL.length)
}

function matches(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at
  return pattern.test(text)
}
