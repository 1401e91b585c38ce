/** The few request fields that the gateway reads. Each must occur once, under a name that every server reads alike. */
import { REFERENCE } from '../../../lib/ids.ts'
import { redactValue } from '../../../receipts/redaction/redact.ts'
import {
  type Edit,
  insertMember,
  type JsonFault,
  type Members,
  type Span,
  VALUES_MAX,
  valueAt,
} from '../json-members.ts'
import type { Malformed, RequestChanges } from './dialect.ts'

export interface Field extends Span {
  readonly name: string
}

/**
 * Finds fields among an object's members. Another spelling or a duplicate is refused: a server could read a limit or a
 * model from it that the gateway did not see.
 */
export function fieldsOf<Key extends string>(
  members: Members,
  names: Readonly<Record<Key, readonly string[]>>,
): Readonly<Partial<Record<Key, Field>>> | Malformed {
  const found: Partial<Record<Key, Field>> = {}
  const wanted = new Map<string, Key>()
  for (const key of Object.keys(names) as Key[])
    for (const name of names[key]) wanted.set(foldCase(name), key)
  for (const [name, span] of members.spans) {
    const key = wanted.get(foldCase(name))
    if (key === undefined) continue
    if (!names[key].includes(name)) return { malformed: `${names[key][0]} has an unsupported spelling` }
    if (found[key] !== undefined) return { malformed: `${names[key][0]} occurs twice` }
    found[key] = { ...span, name }
  }
  return found
}

function foldCase(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, '')
}

/** The largest output limit that a hold supports. */
const CAP_MAX = 100_000_000

/** Returns null when the request sets no limit. */
export function capAt(body: Buffer, field: Field | undefined): number | null | Malformed {
  const value = field === undefined ? null : valueAt(body, field)
  if (value === null) return null
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= CAP_MAX
    ? value
    : { malformed: `${field!.name} must be a whole number from 1 to ${CAP_MAX}` }
}

/** A recorded value must be a plain name, and never a key in the wrong field. */
export function modelAt(value: unknown): string | Malformed {
  if (typeof value !== 'string' || !REFERENCE.test(value) || redactValue(value).redacted)
    return { malformed: 'model must be the name of a model' }
  return value
}

/** Returns the edits that set the model and the output limit. A missing limit is inserted under its name. */
export function modelAndCap(
  members: Members,
  fields: { readonly model?: Field; readonly cap?: Field },
  capName: string,
  { model, cap }: RequestChanges,
): Edit[] {
  const edits: Edit[] = []
  if (model !== undefined) edits.push({ ...fields.model!, text: JSON.stringify(model) })
  if (cap !== undefined)
    edits.push(
      fields.cap === undefined
        ? insertMember(members, capName, String(cap))
        : { ...fields.cap, text: String(cap) },
    )
  return edits
}

/** Each of several choices would be billed up to the limit. */
export function isSeveral(body: Buffer, field: Field | undefined): boolean {
  const value = field === undefined ? undefined : valueAt(body, field)
  return field !== undefined && value !== 1 && value !== null
}

/** Returns whether the tier costs more than the price table says. */
export function isPremiumTier(body: Buffer, field: Field | undefined): boolean {
  if (field === undefined) return false
  return !['auto', 'default', 'flex', 'standard', 'standard_only', null].includes(
    valueAt(body, field) as string | null,
  )
}

export function isMalformed<T>(value: T | Malformed): value is Malformed {
  return typeof value === 'object' && value !== null && 'malformed' in value
}

/** Returns why the scanner refuses a body, for the client. */
export function describeJsonFault(fault: JsonFault): Malformed {
  const reasons: Readonly<Record<JsonFault, string>> = {
    syntax: 'is not JSON',
    not_object: 'is not a JSON object',
    duplicate: 'contains a member twice',
    too_deep: 'is nested too deeply',
    too_many_values: `has more than ${VALUES_MAX} JSON values`,
    too_many_members: 'has too many members',
    long_name: 'has a member whose name is too long',
  }
  return { malformed: `the body ${reasons[fault]}` }
}
