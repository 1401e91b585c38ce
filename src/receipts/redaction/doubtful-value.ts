/** Unquoted values under names of counts, assertions or passes, where prose, code and test results also occur. */
import { isUnlikeWord, type Key } from './named-value.ts'
import type { Separator } from './separators.ts'
import type { Extent } from './value-extents.ts'

const PATH_TO_FILE = /^[\w@./-]{1,200}\.[a-z]{1,5}(?::\d+)*$/

export function isBareFact(text: string, key: Key, separator: Separator, value: Extent): boolean {
  // An arrow function has a body, not a value.
  if (text.slice(key.start + key.name.length, separator.at).includes('=>')) return true
  const content = text.slice(value.start, value.end)
  if (separator.tight) return key.kind === 'pass' && PATH_TO_FILE.test(content)
  if (separator.kind === 'flag') return false
  const isWord = /^[!A-Za-z_$'’.-]{1,96}$/.test(content)
  if (isWord && /^[,.;:)]?[ \t]+[^\s}\]]/.test(text.slice(value.end, value.end + 16))) return true
  return key.kind === 'pass' && isPassOfWork(text, key, separator, content)
}

/**
 * `PASS: TestLogin2` is a result, `second pass: inline` a step. `pass: x` at the start of its line or pair is a
 * password.
 */
function isPassOfWork(text: string, key: Key, separator: Separator, content: string): boolean {
  if (PATH_TO_FILE.test(content)) return true
  if (separator.kind === 'colon' && /^pass$/i.test(key.name) && key.name !== 'pass') return true
  if (isUnlikeWord(content)) return false
  const before = text.slice(Math.max(0, key.start - 32), key.start)
  return !/(?:^|\n|[,{"'`])[ \t]*$/.test(before)
}
