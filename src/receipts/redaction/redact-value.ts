/** Masks the secrets in a JSON-like value, by name and by content. */

import { isBasicPair } from './authorization.ts'
import { CleanTexts } from './clean-texts.ts'
import { isCommandPassword } from './command-passwords.ts'
import { REDACTED_LABEL } from './findings.ts'
import { isFact } from './placeholders.ts'
import { redactText } from './redact-text.ts'
import { countsTokens, kindOfKey } from './secret-keys.ts'
import { childPath, indexPath } from './value-paths.ts'

/** Deeper values are masked unread. No Craik record nests that deeply. */
export const DEPTH_MAX = 64

export interface RedactedValue<T> {
  readonly value: T
  readonly redacted: boolean
  /** The paths of masked values, such as `$.a[0].b`. */
  readonly paths: string[]
  readonly labels: string[]
}

/** Does not change its input. The result shares the parts without secrets. */
export function redactValue<T>(value: T, known = new CleanTexts()): RedactedValue<T> {
  if (isClean(value, 0, known)) return { value, redacted: false, paths: [], labels: [] }
  const walk: Walk = { paths: [], labels: new Set(), ancestors: new Set() }
  const result = redactAny(value, '$', 0, walk) as T
  return {
    value: result,
    redacted: walk.paths.length > 0,
    paths: walk.paths,
    labels: [...walk.labels].sort(),
  }
}

/** Items that can name their neighbour in a list: a flag, a header, a variable. */
export const MAY_NAME_NEXT = /^(?:-|[A-Z]|authorization|proxy-|cookie|set-|x-)/

/** A fast check that most values of Craik pass. In doubt, the walk below decides. */
function isClean(value: unknown, depth: number, known: CleanTexts): boolean {
  if (typeof value === 'string') return known.has(value)
  if (typeof value !== 'object' || value === null) return true
  if (depth > DEPTH_MAX / 2 || ArrayBuffer.isView(value) || 'toJSON' in value) return false
  if (Array.isArray(value)) {
    return value.every(
      (item, i) =>
        isClean(item, depth + 1, known) &&
        !(i < value.length - 1 && typeof item === 'string' && MAY_NAME_NEXT.test(item)) &&
        !isCommandPassword(value, i),
    )
  }
  const entries = Object.entries(value)
  return entries.every(
    ([key, member]) =>
      known.has(key) && !isSecretMember([key, key], member, entries) && isClean(member, depth + 1, known),
  )
}

interface Walk {
  readonly paths: string[]
  readonly labels: Set<string>
  readonly ancestors: Set<object>
}

function redactAny(value: unknown, path: string, depth: number, walk: Walk): unknown {
  if (typeof value === 'string') return redactString(value, path, walk)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (depth > DEPTH_MAX) return mask(path, 'depth_limit', walk)
  if (walk.ancestors.has(value)) return mask(path, 'cycle', walk)
  if (ArrayBuffer.isView(value)) return mask(path, 'binary', walk)
  walk.ancestors.add(value)
  const result = Array.isArray(value)
    ? redactArray(value, path, depth, walk)
    : redactObject(value, path, depth, walk)
  walk.ancestors.delete(value)
  return result
}

function redactString(value: string, path: string, walk: Walk): string {
  const { text, labels } = redactText(value)
  if (text === value) return value
  walk.paths.push(path)
  for (const label of labels) walk.labels.add(label)
  return text
}

function mask(path: string, label: string, walk: Walk): string {
  walk.paths.push(path)
  walk.labels.add(label)
  return REDACTED_LABEL
}

function redactArray(items: readonly unknown[], path: string, depth: number, walk: Walk): unknown {
  let changed = false
  const out = items.map((item, index) => {
    const at = indexPath(path, index)
    const result =
      typeof item === 'string' && isNamedByNeighbour(items, index, item)
        ? mask(at, 'flag', walk)
        : redactAny(item, at, depth + 1, walk)
    changed ||= result !== item
    return result
  })
  return changed ? out : items
}

const HEADER = /^(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-goog-api-key|x-auth-token)$/i
const VARIABLE = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$/

/** Matches `['--token', 'x']` in an argument list, `['Authorization', 'x']` in raw headers, `['DB_PASSWORD', 'x']`. */
function isNamedByNeighbour(items: readonly unknown[], index: number, item: string): boolean {
  const name = items[index - 1]
  if (typeof name !== 'string' || item === REDACTED_LABEL || item === '') return false
  if (/^--?[A-Za-z][\w-]*$/.test(name)) {
    const kind = kindOfKey(name)
    if (kind === 'secret') return !item.startsWith('-')
    if (kind === 'counted' || kind === 'pass') return !item.startsWith('-') && !isFact(item)
    if (isCommandPassword(items, index)) return true
    return (
      /^(?:-u|-U|--user|--proxy-user)$/.test(name) &&
      /^[^:]+:[^:]+$/.test(item) &&
      /(?:^|\/)curl$/.test(`${items[0]}`)
    )
  }
  if (HEADER.test(name) || isCommandPassword(items, index)) return true
  return items.length === 2 && VARIABLE.test(name) && isSecretUnder(name, item) && !VARIABLE.test(item)
}

function redactObject(value: object, path: string, depth: number, walk: Walk): unknown {
  const source = 'toJSON' in value && typeof value.toJSON === 'function' ? value.toJSON() : value
  if (source !== value) return redactAny(source, path, depth + 1, walk)
  const entries = Object.entries(value)
  const taken = new Set<string>()
  let changed = false
  const out = entries.map(([key, member]): [string, unknown] => {
    const name = redactName(key, path, taken, walk)
    const at = childPath(path, name)
    const result = isSecretMember([key, name], member, entries)
      ? mask(at, 'secret_key', walk)
      : redactAny(member, at, depth + 1, walk)
    changed ||= result !== member || name !== key
    return [name, result]
  })
  return changed ? Object.fromEntries(out) : value
}

/** A name can be a secret too, such as a token that is a key. Two masked names must not collide. */
function redactName(key: string, path: string, taken: Set<string>, walk: Walk): string {
  const { text, labels } = redactText(key)
  let name = text
  for (let copy = 2; taken.has(name); copy++) name = `${text}#${copy}`
  taken.add(name)
  if (text !== key) {
    walk.paths.push(childPath(path, name))
    for (const label of labels) walk.labels.add(label)
  }
  return name
}

/** The names that the rules below check. All others are skipped. */
const MAY_MATTER = /token|pass|pwd|secret|cred|auth|cookie|key|mnemonic|^value$/i

/** Checks both the original and the masked name, because masking a part can reveal the meaning of the rest. */
export function isSecretMember(
  [key, masked]: readonly [string, string],
  member: unknown,
  entries: readonly [string, unknown][],
): boolean {
  if (!MAY_MATTER.test(key) && key === masked) return false
  if (isEmpty(member) || member === REDACTED_LABEL) return false
  if (isSecretUnder(key, member) || (masked !== key && isSecretUnder(masked, member))) return true
  if (key === 'auth' && typeof member === 'string') return isBasicPair(member)
  // Matches `{ name: 'DB_PASSWORD', value: 'x' }` in manifests and header lists.
  if (key !== 'value') return false
  return entries.some(
    ([k, name]) =>
      /^(?:name|key|header)$/.test(k) &&
      typeof name === 'string' &&
      // Both the original and the masked name are checked, as for a key.
      (isSecretUnder(name, member) || isSecretUnder(redactText(name).text, member)),
  )
}

/** Lists and objects under the name of a count or an assertion are checked member by member. */
function isSecretUnder(name: string, member: unknown): boolean {
  const kind = kindOfKey(name)
  if (kind === 'plain') return false
  if (kind === 'secret') return !(countsTokens(name) && isCount(member))
  if (typeof member === 'string') return !isFact(member)
  return kind === 'counted' && Array.isArray(member) && member.some((item) => isSecretUnder(name, item))
}

function isCount(member: unknown): boolean {
  if (typeof member === 'string') return /^\d[\d.,_]*$/.test(member)
  return typeof member === 'number' || typeof member === 'boolean'
}

function isEmpty(member: unknown): boolean {
  if (member === null || member === undefined || member === '') return true
  return typeof member === 'object' && !(member instanceof Date) && Object.keys(member).length === 0
}
