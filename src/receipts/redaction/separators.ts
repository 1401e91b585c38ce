/** The separator between a key and its value: `=`, `:`, `=>`, `%3D`, `>` in XML, a space after a flag. */
import { openingQuote, skipGap } from './value-extents.ts'

export interface Separator {
  readonly kind: 'assign' | 'colon' | 'flag' | 'element' | 'sentence' | 'quoted'
  /** The index of the value. */
  readonly at: number
  readonly tight: boolean
  readonly percentEncoded: boolean
}

const NAMED_VALUE = /[ \t]{0,8},?[ \t]{0,8}\\{0,7}["']?value\\{0,7}["']?[ \t]{0,8}[:=]/iy
const NAMED_VALUE_BELOW =
  /[\\"']{0,8}[ \t]?,?[ \t]{0,8}\r?(?:\n|\\n)[ \t]{1,32}[\\"']{0,8}value[\\"']{0,8}[ \t]?[:=]/iy
const ENTRY_NAME = /(?:name|key|header)[\\"']{0,8}[ \t]?[:=][ \t]?[\\"']{0,8}$/i
const LIST_ITEM = /[ \t]{0,8},[ \t]{0,8}(?=\\{0,7}["'])/y
const ENCODED = /%3[AD]|\\u003[ad]/iy

const GO_TYPE = /[ \t]{1,4}\*?(?:string|\[\]byte|String)[ \t]{0,4}=[ \t]{0,4}(?=["'`])/y
const SETTER = /\([ \t]?(?=["'`])/y
const VARIABLE = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$/
const ATTRIBUTES = /[^<>\n]{0,96}>/y

/** Reads the separator after the key at [start, end), if there is one. */
export function separatorAfter(text: string, start: number, end: number): Separator | undefined {
  const below = advance(NAMED_VALUE_BELOW, text, end)
  if (below !== undefined && ENTRY_NAME.test(text.slice(Math.max(0, start - 32), start))) {
    return separator('colon', text, below)
  }
  const closing = openingQuote(text, end)
  if (closing !== undefined) {
    const paired = readPairedValue(text, start, end, closing.at + 1)
    if (paired !== undefined) return paired
  } else {
    const element = text[start - 1] === '<' ? advance(ATTRIBUTES, text, end) : undefined
    if (element !== undefined) return separator('element', text, element)
  }
  const at = afterDecoration(text, closing === undefined ? end : closing.at + 1)
  const sign = skipGap(text, at)
  return (
    signAt(text, sign, sign > at) ??
    (closing === undefined ? readSpacedValue(text, start, end, at) : undefined)
  )
}

/** Matches `"name":"DB_PASSWORD","value":"x"`, `"--token","x"` and `define('DB_PASSWORD', 'x')`. */
function readPairedValue(text: string, start: number, end: number, at: number): Separator | undefined {
  const named = advance(NAMED_VALUE, text, at)
  if (named !== undefined) return separator('colon', text, named)
  const item = advance(LIST_ITEM, text, at)
  if (item === undefined) return undefined
  if (text[start] === '-') return separator('flag', text, item)
  if (!VARIABLE.test(text.slice(start, end))) return undefined
  return /^\\*["'][A-Z][A-Z0-9_]*\\*["']/.test(text.slice(item, item + 64))
    ? undefined
    : separator('colon', text, item)
}

/** Skips what closes a key: an index, array brackets, Markdown, a TypeScript `?`, an HTML entity. */
function afterDecoration(text: string, from: number): number {
  let at = from
  if (text.startsWith('&quot;', at)) at += '&quot;'.length
  if (text[at] === ']') at++
  else if (text[at] === '[' && text[at + 1] === ']') at += 2
  if (text[at] === '*' && text[at + 1] === '*') at += 2
  if ((text[at] === '?' || text[at] === '!') && text[at + 1] === ':') at++
  return at
}

function signAt(text: string, at: number, spaced: boolean): Separator | undefined {
  const encoded = advance(ENCODED, text, at)
  if (encoded !== undefined)
    return { kind: 'assign', at: encoded, tight: true, percentEncoded: text[at] === '%' }
  const char = text[at]
  const next = text[at + 1]
  if (char === '=') return assignment(text, at, next, spaced)
  if (char === '→' || (char === '-' && next === '>'))
    return separator('sentence', text, char === '→' ? at + 1 : at + 2)
  if ((char === '?' || char === '+' || char === '|') && next === '=') return separator('assign', text, at + 2)
  if (char !== ':' || next === ':' || (next === '/' && text[at + 2] === '/')) return undefined
  return separator('colon', text, next === '=' ? at + 2 : at + 1)
}

/** Reads values after a space alone: of a flag, a quoted password, `the password is x`, `ENV API_KEY x`. */
function readSpacedValue(text: string, start: number, end: number, from: number): Separator | undefined {
  const at = skipGap(text, from)
  const setter = /^(?:set|with)/i.test(text.slice(start, start + 4)) ? advance(SETTER, text, from) : undefined
  if (setter !== undefined) return separator('assign', text, setter)
  if (at === from) return undefined
  if (text[start] === '-') return separator('flag', text, at)
  const typed = advance(GO_TYPE, text, from)
  if (typed !== undefined) return separator('assign', text, typed)
  if (text[at] === "'" || text[at] === '"') return separator('quoted', text, at)
  const sentence = /^(?:is|was):?[ \t]/i.exec(text.slice(at, at + 5))
  if (sentence !== null) return separator('sentence', text, at + sentence[0].length)
  const name = text.slice(start, end)
  return /(?:password|passwd)$/i.test(name) || name.startsWith('_') || VARIABLE.test(name)
    ? separator('sentence', text, at)
    : undefined
}

function assignment(
  text: string,
  at: number,
  next: string | undefined,
  spaced: boolean,
): Separator | undefined {
  if (next === '>') return separator('assign', text, at + 2)
  if (next === '~') return undefined
  if (next === '=') {
    // `==` is a comparison, unless it has no spaces around it and no version follows: `PASSWORD==abc`, `pkg==1.2`.
    if (spaced || text[at + 2] === '=' || /^[\s\d]/.test(text[at + 2] ?? ' ')) return undefined
    return { kind: 'assign', at: at + 1, tight: true, percentEncoded: false }
  }
  return separator('assign', text, at + 1, !spaced && skipGap(text, at + 1) === at + 1)
}

function separator(kind: Separator['kind'], text: string, from: number, tight = false): Separator {
  let at = skipGap(text, from)
  // Markdown closes its emphasis after the colon: `**password:** value`.
  if (text.startsWith('** ', at)) at = skipGap(text, at + 2)
  // Python, C# and shells can prefix a quote with a letter or a sign.
  const prefix = /^[bBfFrRuU$@]{1,2}(?=["'`])/.exec(text.slice(at, at + 3))
  return { kind, at: at + (prefix?.[0].length ?? 0), tight, percentEncoded: false }
}

function advance(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : undefined
}
