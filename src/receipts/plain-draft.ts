/**
 * The fast path for a draft that clearly fits the schema and that redaction does not change, as nearly every draft
 * does. One walk checks, searches and serializes it. It accepts less than `schema.ts`, never more. Other drafts take
 * the full path.
 */
import type { ReceiptId } from '../lib/ids.ts'
import { GRANT_OUTCOMES, RECEIPT_KINDS, RECEIPT_STATUSES } from './kinds.ts'
import type { CleanJson } from './redaction/redact.ts'
import type { Measure, ReceiptDraft, ReceiptLinks } from './schema.ts'

/** Returns canonical JSON, or `undefined` where a value does not clearly fit. */
type Serialize = (value: unknown, known: CleanJson) => string | undefined
type Serializers<Names extends string> = Readonly<Record<Names, Serialize>>

const DIGEST = /^sha256:[0-9a-f]{64}$/

const reference: Serialize = (value, known) => {
  const text = typeof value === 'string' ? known.texts.get(value) : undefined
  return text?.isReference === true ? text.quoted : undefined
}
const digest: Serialize = (value, known) =>
  typeof value === 'string' && DIGEST.test(value) ? known.texts.get(value)?.quoted : undefined
const shortText: Serialize = (value, known) =>
  typeof value === 'string' && value.length <= 100 ? known.texts.get(value)?.quoted : undefined
const integer: Serialize = (value) => (Number.isSafeInteger(value) ? `${value}` : undefined)
const count: Serialize = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? `${value}` : undefined
const flag: Serialize = (value) => (typeof value === 'boolean' ? `${value}` : undefined)
const json: Serialize = (value, known) => known.spell(value)
const facts: Serialize = (value, known) => (isRecord(value) ? known.spellFacts(value) : undefined)
const oneOf = (words: readonly string[]): Serialize => {
  const quoted: ReadonlyMap<unknown, string> = new Map(words.map((word) => [word, `"${word}"`]))
  return (value) => quoted.get(value)
}
/** A word can be a flag or a header that names the next one, so the list is checked as a whole. */
const references =
  (most: number): Serialize =>
  (value, known) => {
    const fits =
      Array.isArray(value) &&
      value.length <= most &&
      value.every((item) => reference(item, known) !== undefined)
    return fits ? known.spell(value) : undefined
  }
const digests: Serialize = (value, known) => {
  const fits =
    isRecord(value) &&
    Object.entries(value).every(
      ([name, one]) => reference(name, known) !== undefined && digest(one, known) !== undefined,
    )
  return fits ? known.spell(value) : undefined
}

/** None of the member names announces a secret. */
const record = (members: Serializers<string>, ...required: string[]): Serialize => {
  const names = Object.keys(members)
    .sort()
    .map((name) => ({ name, before: `"${name}":`, spell: members[name]! }))
  return (value, known) => {
    if (!isRecord(value)) return undefined
    for (const name of required) if (value[name] === undefined) return undefined
    let out = ''
    let seen = 0
    for (const { name, before, spell } of names) {
      const member = value[name]
      if (member === undefined) {
        if (Object.hasOwn(value, name)) seen++
        continue
      }
      seen++
      const serialized = spell(member, known)
      if (serialized === undefined) return undefined
      out += out === '' ? before + serialized : `,${before}${serialized}`
    }
    return seen === Object.keys(value).length ? `{${out}}` : undefined
  }
}

const LINKS: Serializers<keyof ReceiptLinks> = {
  backend_id: reference,
  command_ref: reference,
  grant_id: reference,
  grant_outcome: oneOf(GRANT_OUTCOMES),
  handoff_id: reference,
  job_id: reference,
  policy_envelope_id: reference,
  provider_id: reference,
  provider_result_count: count,
  receipt_ids: references(100),
  route_id: reference,
  run_id: reference,
  sandbox_id: reference,
  secret_ref: reference,
  session_id: reference,
  target_id: reference,
  task_id: reference,
}

const DECISION: Serializers<keyof NonNullable<ReceiptDraft['decision']>> = {
  effect: oneOf(['allow', 'deny']),
  input: json,
  missing: references(20),
  policy_digest: digest,
  price_digest: digest,
  replayable: flag,
  rule: reference,
}

const OWNER: Serializers<keyof NonNullable<ReceiptDraft['owner']>> = {
  boot_id: shortText,
  pid: count,
  pid_namespace: shortText,
  started_at: shortText,
}

/** The name of a measure counts as the name of its value. */
const MEASURE: Serializers<keyof Measure> = {
  name: (value, known) =>
    typeof value === 'string' && known.mayCount(value) ? reference(value, known) : undefined,
  source: oneOf(['observed', 'claimed']),
  value: integer,
}
const measure = record(MEASURE, 'name', 'source', 'value')
const measures: Serialize = (value, known) => {
  if (!Array.isArray(value) || value.length > 50) return undefined
  const all = value.map((one) => measure(one, known))
  return all.includes(undefined) ? undefined : `[${all.join(',')}]`
}

/** Keys and texts are rare enough for the full path. */
type Plain = Exclude<keyof ReceiptDraft, 'key' | 'redacted_fields' | 'shell'>

const BODY: Serializers<Plain | 'id' | 'schema'> = {
  begin_id: reference,
  capability: reference,
  decision: record(DECISION, 'effect', 'missing', 'replayable', 'rule'),
  digests,
  id: reference,
  isolation: reference,
  kind: oneOf(RECEIPT_KINDS),
  links: record(LINKS),
  measures,
  metadata: facts,
  operation: reference,
  operator: reference,
  owner: record(OWNER, 'boot_id', 'pid', 'pid_namespace', 'started_at'),
  phase: oneOf(['begin', 'end', 'point']),
  schema: oneOf(['craik.receipt/1']),
  status: oneOf(RECEIPT_STATUSES),
  target: reference,
}
const body = record(BODY, 'capability', 'kind', 'links', 'operator', 'phase')

/** Returns the canonical JSON of the body, or `undefined`. */
export function serializePlainDraft(
  id: ReceiptId,
  draft: ReceiptDraft,
  known: CleanJson,
): string | undefined {
  // A draft must not contain the names that the log assigns. The schema refuses them on the full path.
  if (!isRecord(draft) || Object.hasOwn(draft, 'id') || Object.hasOwn(draft, 'schema')) return undefined
  return agreesWithItself(draft) ? body({ ...draft, id, schema: 'craik.receipt/1' }, known) : undefined
}

/** The refinements of the schema: phases, kinds and statuses that must match. */
function agreesWithItself({ phase, status, owner, begin_id, kind, decision }: ReceiptDraft): boolean {
  return (
    (phase === 'begin') === (status === undefined) &&
    (phase === 'begin') === (owner !== undefined) &&
    (phase === 'end') === (begin_id !== undefined) &&
    (kind !== 'denial' || status === 'denied' || status === 'blocked') &&
    !(status === 'passed' && decision?.effect === 'deny')
  )
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.getPrototypeOf(value) === Object.prototype
  )
}
