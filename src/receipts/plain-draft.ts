/**
 * The short way of a draft that plainly fits the schema and that redaction leaves as it is, which is nearly every one:
 * it is checked, looked through and spelled in one walk. It accepts less than `schema.ts` does, never more; what it does
 * not accept goes the long way.
 */
import type { ReceiptId } from '../lib/ids.ts'
import { GRANT_OUTCOMES, RECEIPT_KINDS, RECEIPT_STATUSES } from './kinds.ts'
import type { CleanJson } from './redaction/redact.ts'
import type { Measure, ReceiptDraft, ReceiptLinks } from './schema.ts'

/** Canonical JSON; undefined where a value does not plainly fit. */
type Spell = (value: unknown, known: CleanJson) => string | undefined
type Spelled<Names extends string> = Readonly<Record<Names, Spell>>

const DIGEST = /^sha256:[0-9a-f]{64}$/

const reference: Spell = (value, known) => {
  const text = typeof value === 'string' ? known.texts.get(value) : undefined
  return text?.isReference === true ? text.quoted : undefined
}
const digest: Spell = (value, known) =>
  typeof value === 'string' && DIGEST.test(value) ? known.texts.get(value)?.quoted : undefined
const shortText: Spell = (value, known) =>
  typeof value === 'string' && value.length <= 100 ? known.texts.get(value)?.quoted : undefined
const integer: Spell = (value) => (Number.isSafeInteger(value) ? `${value}` : undefined)
const count: Spell = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? `${value}` : undefined
const flag: Spell = (value) => (typeof value === 'boolean' ? `${value}` : undefined)
const json: Spell = (value, known) => known.spell(value)
const facts: Spell = (value, known) => (isRecord(value) ? known.spellFacts(value) : undefined)
const oneOf = (words: readonly string[]): Spell => {
  const quoted: ReadonlyMap<unknown, string> = new Map(words.map((word) => [word, `"${word}"`]))
  return (value) => quoted.get(value)
}
/** A word can be a flag or a header that names the next one, so a list is looked through as a whole. */
const references =
  (most: number): Spell =>
  (value, known) => {
    const fits =
      Array.isArray(value) &&
      value.length <= most &&
      value.every((item) => reference(item, known) !== undefined)
    return fits ? known.spell(value) : undefined
  }
const digests: Spell = (value, known) => {
  const fits =
    isRecord(value) &&
    Object.entries(value).every(
      ([name, one]) => reference(name, known) !== undefined && digest(one, known) !== undefined,
    )
  return fits ? known.spell(value) : undefined
}

/** None of the names says that a secret follows. */
const record = (members: Spelled<string>, ...required: string[]): Spell => {
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
      const spelled = spell(member, known)
      if (spelled === undefined) return undefined
      out += out === '' ? before + spelled : `,${before}${spelled}`
    }
    return seen === Object.keys(value).length ? `{${out}}` : undefined
  }
}

const LINKS: Spelled<keyof ReceiptLinks> = {
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

const DECISION: Spelled<keyof NonNullable<ReceiptDraft['decision']>> = {
  effect: oneOf(['allow', 'deny']),
  input: json,
  missing: references(20),
  policy_digest: digest,
  price_digest: digest,
  replayable: flag,
  rule: reference,
}

const OWNER: Spelled<keyof NonNullable<ReceiptDraft['owner']>> = {
  boot_id: shortText,
  pid: count,
  pid_namespace: shortText,
  started_at: shortText,
}

/** The name of a measure names its value. */
const MEASURE: Spelled<keyof Measure> = {
  name: (value, known) =>
    typeof value === 'string' && known.mayCount(value) ? reference(value, known) : undefined,
  source: oneOf(['observed', 'claimed']),
  value: integer,
}
const measure = record(MEASURE, 'name', 'source', 'value')
const measures: Spell = (value, known) => {
  if (!Array.isArray(value) || value.length > 50) return undefined
  const all = value.map((one) => measure(one, known))
  return all.includes(undefined) ? undefined : `[${all.join(',')}]`
}

/** Keys and texts are seldom enough for the long way. */
type Plain = Exclude<keyof ReceiptDraft, 'key' | 'redacted_fields' | 'shell'>

const BODY: Spelled<Plain | 'id' | 'schema'> = {
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

/** The canonical JSON of the body, or undefined. */
export function serializePlainDraft(
  id: ReceiptId,
  draft: ReceiptDraft,
  known: CleanJson,
): string | undefined {
  // Whatever a draft says under the names that the log gives is for the schema to refuse.
  if (!isRecord(draft) || Object.hasOwn(draft, 'id') || Object.hasOwn(draft, 'schema')) return undefined
  return agreesWithItself(draft) ? body({ ...draft, id, schema: 'craik.receipt/1' }, known) : undefined
}

/** What the schema refines: phases, kinds and statuses that go together. */
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
