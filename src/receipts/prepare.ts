/**
 * The only entry to the log: it drops payloads, redacts everything, checks the closed schema and freezes the result as
 * canonical JSON. The result type cannot be created in any other way.
 */
import { CraikError } from '../errors.ts'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import { REFERENCE, type ReceiptId } from '../lib/ids.ts'
import { serializePlainDraft } from './plain-draft.ts'
import { CleanJson, dropPayloadKeys, REDACTED_LABEL, redactText, redactValue } from './redaction/redact.ts'
import { childPath, indexPath } from './redaction/value-paths.ts'
import { type ReceiptDraft, receiptDraft } from './schema.ts'

/** Larger than any real receipt. Keeps a line well under the limit of verifiers. */
const MAX_BODY_BYTES = 256 * 1024
const MAX_PATH_CHARACTERS = 300

declare const prepared: unique symbol
export interface PreparedReceipt {
  readonly [prepared]: true
  readonly id: ReceiptId
  /** The canonical JSON of the body. */
  readonly body: string
  /** The fields that the store indexes. */
  readonly draft: Pick<ReceiptDraft, 'kind' | 'phase' | 'status' | 'begin_id' | 'owner' | 'links'>
}

/**
 * Prepares a receipt. `known` is a cache for a caller that prepares many. A decision whose input redaction changes is
 * marked as not replayable, because the removed text is missing from its input.
 */
export function prepareReceipt(id: ReceiptId, draft: ReceiptDraft, known = new CleanJson()): PreparedReceipt {
  const plain = serializePlainDraft(id, draft, known)
  return plain === undefined ? prepareWithCare(id, draft, known) : toPrepared(id, plain, draft)
}

/** The full path, which is authoritative. The fast path only saves time. */
export function prepareWithCare(id: ReceiptId, draft: ReceiptDraft, known: CleanJson): PreparedReceipt {
  const metadata = draft.metadata === undefined ? undefined : onlyFacts(draft.metadata as Json)
  const { value, paths } = redactValue(metadata ? { ...draft, metadata: metadata.value } : draft, known.texts)
  const hidden = [...(draft.redacted_fields ?? []), ...(metadata?.dropped ?? []), ...paths]
  const isReplayable = !paths.some((path) => path.startsWith('$.decision.input'))
  const parsed = receiptDraft.safeParse({
    ...value,
    ...(value.decision && !isReplayable && { decision: { ...value.decision, replayable: false } }),
    ...(hidden.length > 0 && { redacted_fields: cleanPaths(hidden) }),
  })
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!
    const where = issue.path.length === 0 ? '' : ` at ${issue.path.join('.')}`
    throw new CraikError('internal', `a receipt does not match its schema${where}: ${issue.message}`)
  }
  return toPrepared(id, canonicalJson({ ...parsed.data, schema: 'craik.receipt/1', id } as Json), parsed.data)
}

function toPrepared(id: ReceiptId, body: string, draft: PreparedReceipt['draft']): PreparedReceipt {
  if (body.length > MAX_BODY_BYTES)
    throw new CraikError('too_large', `a receipt of ${body.length} characters is too long`)
  const { kind, phase, status, begin_id, owner, links } = draft
  return { id, body, draft: { kind, phase, status, begin_id, owner, links } } as PreparedReceipt
}

function cleanPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map(cleanPath))].sort().slice(0, 200)
}

/** Callers write names too. The list does not repeat a name that is not a reference or contains a secret. */
function cleanPath(path: string): string {
  const named = path.replace(/\["((?:[^"\\]|\\.)*)"\]/g, (quoted, name) =>
    REFERENCE.test(name) ? quoted : '[…]',
  )
  return redactText(named).text.slice(0, MAX_PATH_CHARACTERS)
}

/**
 * Keeps integers, booleans and references under names that are references. Drops payload keys at any depth and free
 * text, and lists both.
 */
function onlyFacts(metadata: Json): { readonly value: Json; readonly dropped: readonly string[] } {
  const { value, dropped } = dropPayloadKeys(metadata)
  const paths = [...dropped]
  const keep = (item: Json, path: string): Json | undefined => {
    if (item === null || typeof item === 'boolean' || Number.isSafeInteger(item)) return item
    if (typeof item === 'string' && (REFERENCE.test(item) || item === REDACTED_LABEL)) return item
    if (Array.isArray(item)) return item.map((entry, i) => keep(entry, indexPath(path, i)) ?? null)
    if (typeof item === 'object') {
      return Object.fromEntries(
        Object.entries(item)
          .map(([key, entry]) => [key, keepNamed(key, entry as Json, childPath(path, key))] as const)
          .filter(([, entry]) => entry !== undefined),
      )
    }
    paths.push(path)
    return undefined
  }
  const keepNamed = (name: string, item: Json, path: string): Json | undefined => {
    if (REFERENCE.test(name)) return keep(item, path)
    paths.push(path)
    return undefined
  }
  return {
    value: keep(value as Json, '$') ?? {},
    dropped: paths.map((path) => path.replace(/^\$/, '$.metadata')),
  }
}
