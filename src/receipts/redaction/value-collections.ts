/** Lists and objects under a secret name on one line. */
import type { ReportFinding } from './findings.ts'
import { REDACTED_LABEL } from './findings.ts'
import { isCountOf, isUnlikeWord } from './named-value.ts'
import { isFact, isPlaceholder } from './placeholders.ts'
import { kindOfKey } from './secret-keys.ts'
import { findQuotedExtent, openingQuote, skipGap } from './value-extents.ts'

/** Objects longer than this are checked member by member. */
const OBJECT_MAX = 4096
const OBJECT_DEPTH = 4
/** Members of a schema: such an object describes a secret and contains none. */
const SCHEMA = /\\*["'](?:type|\$ref|minLength|description|default)\\*["']\s?:/

/** Reports each item of a list: `"tokens": ["a", "b"]`. Unquoted items can be words or secrets. */
export function reportList(
  text: string,
  from: number,
  key: string,
  report: ReportFinding,
): number | undefined {
  let at = skipGap(text, from)
  for (;;) {
    const quote = openingQuote(text, at)
    const item = quote === undefined ? bareItem(text, at) : findQuotedExtent(text, quote.at, quote.depth)
    const content = text.slice(item.start, item.end)
    if (content === '') return at > from ? at : undefined
    const isSecret = quote === undefined ? isUnlikeWord(content) : !isPlaceholder(content)
    if (isSecret && !isCountOf(key, content) && !(kindOfKey(key) === 'counted' && isFact(content)))
      report(item.start, item.end, 'key_value')
    at = skipGap(text, item.end + (quote === undefined ? 0 : quote.depth + 1))
    if (text[at] !== ',') return at
    at = skipGap(text, at + 1)
  }
}

function bareItem(text: string, from: number): { readonly start: number; readonly end: number } {
  if (text.startsWith(REDACTED_LABEL, from)) return { start: from, end: from + REDACTED_LABEL.length }
  const [item] = /^[\w.+/=-]*/.exec(text.slice(from, from + OBJECT_MAX))!
  return { start: from, end: from + item.length }
}

/** Reports the content of an object such as `"credentials":{"user":"a","x":"b"}`, if it closes on its line. */
export function reportObject(text: string, from: number, report: ReportFinding): number | undefined {
  let depth = 1
  for (let at = from; at < Math.min(text.length, from + OBJECT_MAX); at++) {
    const char = text[at]
    if (char === '\n') return undefined
    if (char === '{' && ++depth > OBJECT_DEPTH) return undefined
    if (char === '}' && --depth === 0) {
      const content = text.slice(from, at)
      if (content.trim() === '' || content === REDACTED_LABEL || SCHEMA.test(content)) return undefined
      report(from, at, 'key_value')
      return at
    }
  }
  return undefined
}
