/** Secrets that their name announces: `password: x`, `API_KEY=x`, `--token x`, `"secret":"x"`, headers, cookies. */
import { reportAuthorization, reportBasicPair, reportCookies } from './authorization.ts'
import { alphabet, runEnd, runStart } from './characters.ts'
import { isBareFact } from './doubtful-value.ts'
import { REDACTED_LABEL, type ReportFinding } from './findings.ts'
import { type Key, readNamedValue } from './named-value.ts'
import { isFact } from './placeholders.ts'
import { classifyKey, type KeyClass } from './secret-keys.ts'
import { type Separator, separatorAfter } from './separators.ts'
import { reportList, reportObject } from './value-collections.ts'
import { openingQuote, quoteBefore } from './value-extents.ts'

const KEYWORD = /token|pass|pwd|secret|cred|auth|cookie|key|mnemonic/gi
const NAME = alphabet(/[A-Za-z0-9_.$-]/)
/** No real name is longer. The limit keeps `tokentokentoken…` linear. */
const NAME_MAX = 96

export function findKeyValues(text: string, report: ReportFinding): void {
  // Logs and listings repeat their keys, so each key is classified once.
  const evaluated = new Map<string, KeyClass>()
  KEYWORD.lastIndex = 0
  for (let match = KEYWORD.exec(text); match !== null; match = KEYWORD.exec(text)) {
    const end = runEnd(text, match.index, NAME, Math.min(text.length, match.index + NAME_MAX))
    KEYWORD.lastIndex = Math.max(KEYWORD.lastIndex, end)
    const start = nameStart(text, match.index)
    const separator = separatorAfter(text, start, end)
    if (separator === undefined) continue
    const name = nameOf(text, start, end)
    if (isBlob(name)) continue
    const keyClass = evaluated.get(name) ?? classifyKey(name)
    evaluated.set(name, keyClass)
    const next = reportValue(text, { start, name, ...keyClass }, separator, report)
    // A masked value needs no second check. A value that stays can contain another key.
    if (next !== undefined) KEYWORD.lastIndex = Math.max(KEYWORD.lastIndex, next)
  }
}

/** A base64 checksum can contain `pwd`. Real names do not look like that. */
function isBlob(name: string): boolean {
  return name.length > 40 && /[A-Za-z0-9]{41}/.test(name) && /\d/.test(name)
}

function nameStart(text: string, keyword: number): number {
  let start = runStart(text, keyword, NAME, Math.max(0, keyword - NAME_MAX))
  if (text[start - 1] === '\\' && start < keyword && /[nrtbfv]/.test(text[start]!)) start++
  if (text[start - 1] === '%' && /^[0-9A-Fa-f]{2}/.test(text.slice(start, Math.min(start + 2, keyword))))
    start += 2
  return start
}

/** `API key: x` and `private key = x` contain a space. */
function nameOf(text: string, start: number, end: number): string {
  const name = text.slice(start, end)
  if (!/^keys?$/i.test(name)) return name
  const owner = /([A-Za-z]{2,16}) $/.exec(text.slice(Math.max(0, start - 17), start))?.[1]
  return owner === undefined ? name : `${owner}_${name}`
}

/** Reports the value when it is a secret and returns where it ends. */
function reportValue(
  text: string,
  key: Key,
  separator: Separator,
  report: ReportFinding,
): number | undefined {
  const { start, name, lastWord } = key
  if (lastWord === 'auth' && name !== '_auth') return reportBasicPair(text, separator, report)
  if (key.kind === 'plain' || isOtherColon(text, key, separator)) return undefined
  const opened = quoteBefore(text, start)
  if (key.kind !== 'secret') return reportDoubtful(text, key, separator, report)
  if (lastWord === 'authorization') return reportAuthorization(text, separator, opened, report)
  if (/^cookies?$/.test(lastWord) && separator.kind === 'colon') {
    return reportCookies(text, separator, opened, report)
  }
  const { at } = separator
  if (text[at] === '[' && !text.startsWith(REDACTED_LABEL, at)) return reportList(text, at + 1, name, report)
  if (text[at] === '{' && opened !== undefined && text[at + 1] !== '{')
    return reportObject(text, at + 1, report)
  const value = readNamedValue(text, key, separator)
  if (value === undefined) return undefined
  report(value.start, value.end, separator.kind === 'flag' ? 'flag' : 'key_value')
  return value.end
}

/** Under the name of a count or an assertion, lists hold names, and objects hold members with their own names. */
function reportDoubtful(
  text: string,
  key: Key,
  separator: Separator,
  report: ReportFinding,
): number | undefined {
  const { at, kind } = separator
  if (text[at] === '[' && !text.startsWith(REDACTED_LABEL, at))
    return key.kind === 'counted' ? reportList(text, at + 1, key.name, report) : undefined
  if (text[at] === '{' || (kind === 'flag' && key.kind === 'asserted')) return undefined
  const value = readNamedValue(text, key, separator)
  if (value === undefined) return undefined
  const isQuoted = openingQuote(text, at) !== undefined
  const content = text.slice(value.start, value.end)
  if (isFact(content) || (!isQuoted && isBareFact(text, key, separator, value))) return undefined
  report(value.start, value.end, kind === 'flag' ? 'flag' : 'key_value')
  return value.end
}

const SOURCE_FILE =
  /\.(?:[cm]?[jt]sx?|py|go|rs|rb|java|kt|swift|php|sh|c|h|cpp|sql|md|json|ya?ml|toml|txt|css|html)$/

/** Parser errors, source positions and cloud resource names also put these words before a colon. */
function isOtherColon(text: string, { start, name }: Key, { kind }: Separator): boolean {
  if (kind !== 'colon') return false
  if (
    SOURCE_FILE.test(name) ||
    /(?:unexpected|illegal|:param|:type) $/i.test(text.slice(Math.max(0, start - 12), start))
  )
    return true
  return text[start - 1] === ':' && /\barn:/.test(text.slice(Math.max(0, start - 128), start))
}
