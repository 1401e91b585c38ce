/** The value after a secret name, if it is a secret. */
import { alphabet, runEnd } from './characters.ts'
import { isBareNonSecret, isPlaceholder } from './placeholders.ts'
import { countsTokens, type KeyClass } from './secret-keys.ts'
import type { Separator } from './separators.ts'
import {
  bareExtent,
  type Extent,
  findQuotedExtent,
  lineExtent,
  openingQuote,
  trimExtent,
} from './value-extents.ts'

const ELEMENT_TEXT = alphabet(/[^<>\r\n]/)

export interface Key extends KeyClass {
  readonly start: number
  readonly name: string
}

/** Returns the extent of the secret, or `undefined` when a placeholder, code, a count or prose follows. */
export function readNamedValue(text: string, key: Key, separator: Separator): Extent | undefined {
  const { at } = separator
  if (separator.kind === 'element') {
    const end = runEnd(text, at, ELEMENT_TEXT)
    return !text.startsWith('</', end) || isPlaceholder(text.slice(at, end)) ? undefined : { start: at, end }
  }
  const quote = openingQuote(text, at)
  if (quote !== undefined) {
    const quoted = findQuotedExtent(text, quote.at, quote.depth)
    const content = text.slice(quoted.start, quoted.end)
    if (separator.kind === 'quoted' && !/^pass(?:word|wd|phrase)$/i.test(key.name)) return undefined
    if (/^[ \t]*[,;+)\]}]/.test(content) && isInsideString(text, key.start, quote.char)) return undefined
    if (separator.kind === 'sentence' && (!isUnlikeWord(content) || /[\s{}]/.test(content))) return undefined
    return isPlaceholder(content) || isCountOf(key.name, content) ? undefined : quoted
  }
  const block = /^[|>][+-]?\d?[ \t]*\r?(?:\n|\\n)[ \t]+/.exec(text.slice(at, at + 80))
  if (block !== null) return lineExtent(text, at + block[0].length)
  return readBare(text, at, key, separator)
}

/** `log('password:', x)`: an odd number of quotes precedes the key, so the next one closes a string. */
function isInsideString(text: string, start: number, quote: string): boolean {
  const window = text.slice(Math.max(0, start - 200), start)
  const line = window.slice(window.lastIndexOf('\n') + 1)
  return (line.replace(/\\./g, '').split(quote).length - 1) % 2 === 1
}

function readBare(text: string, at: number, key: Key, separator: Separator): Extent | undefined {
  const { kind, tight } = separator
  const full = bareExtent(text, at, separator.percentEncoded)
  const extent = trimExtent(text, full, tight ? /[)\]},;]/ : /[.,;:)\]}]/)
  const value = text.slice(extent.start, extent.end)
  const rest = text.slice(extent.end, extent.end + 16)
  if (value === '' || isCountOf(key.name, value)) return undefined
  if (!tight && /^(?:#|\/\/|!\w+ )/.test(text.slice(at, at + 24))) return undefined
  if (kind === 'flag' && /^(?:-|id=|(?:flag|option|argument)s?$)/.test(value)) return undefined
  if (kind === 'sentence' && !isUnlikeWord(value)) return undefined
  if (kind === 'quoted' || /^\$?\{\{/.test(value)) return undefined
  if (isBareNonSecret({ key: key.name, value, rest, tight })) return findTypedDefault(text, extent.end, key)
  if (/^(?:passphrase|mnemonic)$/.test(key.lastWord) && kind === 'colon') return lineExtent(text, at)
  return extent
}

/** Six characters with a digit and a letter: no word of a sentence, and few passwords are shorter. */
export function isUnlikeWord(value: string): boolean {
  return value.length >= 6 && /\d/.test(value.slice(0, 512)) && /[A-Za-z]/.test(value.slice(0, 512))
}

/** Matches `const token: string = 'x'`, where the type stays and the value is masked. */
function findTypedDefault(text: string, from: number, key: Key): Extent | undefined {
  const match = /^[\w \t|[\]<>?]{0,24}= ?(?=\\{0,7}["'`])/.exec(text.slice(from, from + 40))
  if (match === null) return undefined
  return readNamedValue(text, key, {
    kind: 'assign',
    at: from + match[0].length,
    tight: false,
    percentEncoded: false,
  })
}

export function isCountOf(key: string, value: string): boolean {
  return countsTokens(key) && /^~?\d[\d.,_]{0,24}[kKmM]?(?:\/\d[\d.,_]{0,24}[kKmM]?)?%?$/.test(value)
}
