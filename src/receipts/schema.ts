/** The content of a receipt. The schema is closed: references, integers and digests, with text only in `shell`. */
import { z } from 'zod'
import type { Json } from '../lib/canonical-json.ts'
import { REFERENCE, type ReceiptId } from '../lib/ids.ts'
import { GRANT_OUTCOMES, RECEIPT_KINDS, RECEIPT_STATUSES } from './kinds.ts'

export type { GrantOutcome, ReceiptStatus } from './kinds.ts'

const reference = z.string().regex(REFERENCE)
const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/)
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const integer = z.int()
const count = z.int().nonnegative()
const path = z.string().regex(/^\S{1,300}$/, 'a path can have at most 300 characters and no spaces')

/** Members are in alphabetical order here and below, as in the output, because sorting takes time. */
const links = z.strictObject({
  backend_id: reference.optional(),
  command_ref: reference.optional(),
  grant_id: reference.optional(),
  grant_outcome: z.enum(GRANT_OUTCOMES).optional(),
  handoff_id: reference.optional(),
  job_id: reference.optional(),
  policy_envelope_id: reference.optional(),
  provider_id: reference.optional(),
  provider_result_count: count.optional(),
  receipt_ids: z.array(reference).max(100).optional(),
  route_id: reference.optional(),
  run_id: reference.optional(),
  sandbox_id: reference.optional(),
  secret_ref: reference.optional(),
  session_id: reference.optional(),
  target_id: reference.optional(),
  task_id: reference.optional(),
})

/** `input` is everything that the rule read. With it and the policy's digest the decision can be replayed. */
const decision = z.strictObject({
  effect: z.enum(['allow', 'deny']),
  // Serialization checks that the value is JSON.
  input: z.custom<Json>().optional(),
  missing: z.array(reference).max(20),
  policy_digest: digest.optional(),
  price_digest: digest.optional(),
  replayable: z.boolean(),
  rule: reference,
})

const owner = z.strictObject({
  boot_id: z.string().max(100),
  pid: count,
  started_at: z.string().max(100),
  pid_namespace: z.string().max(100),
})

/** `observed` by the host, or `claimed` by the sandbox. */
const measure = z.strictObject({
  name: reference,
  value: integer,
  source: z.enum(['observed', 'claimed']),
})

const stream = z.strictObject({
  preview: z.string().max(4096),
  bytes: count,
  sha256,
  /** False when the side log was cut at its size limit. */
  complete: z.boolean(),
})

const shell = z.strictObject({
  command: z.string().max(4096),
  working_directory: z.string().max(4096),
  exit_code: integer.nullable(),
  signal: z.string().max(20).nullable(),
  outcome: z.enum(['exited', 'signalled', 'timeout', 'cancelled', 'output_limit', 'not_started']),
  stdout: stream,
  stderr: stream,
  duration_ms: count,
  redactions_applied: z.array(path).max(200),
})

export const receiptDraft = z
  .strictObject({
    begin_id: reference.optional(),
    capability: reference,
    links,
    decision: decision.optional(),
    digests: z.record(reference, digest).optional(),
    isolation: reference.optional(),
    /** Key rotation: the keys that seal and sign everything after this receipt. */
    key: z.strictObject({ next_kid: reference, next_vkey: z.string().max(300) }).optional(),
    kind: z.enum(RECEIPT_KINDS),
    measures: z.array(measure).max(50).optional(),
    /** Small facts of the caller: integers, booleans and references; never payloads. */
    metadata: z.record(z.string(), z.custom<Json>()).optional(),
    operation: reference.optional(),
    operator: reference,
    owner: owner.optional(),
    phase: z.enum(['begin', 'end', 'point']),
    redacted_fields: z.array(path).max(200).optional(),
    shell: shell.optional(),
    status: z.enum(RECEIPT_STATUSES).optional(),
    target: reference.optional(),
  })
  .superRefine((draft, context) => {
    const complain = (message: string) => context.addIssue({ code: 'custom', message })
    if ((draft.phase === 'begin') === (draft.status !== undefined))
      complain('a begin has no status; all other receipts have one')
    if ((draft.phase === 'begin') !== (draft.owner !== undefined))
      complain('only a begin names its owner, and it must')
    if ((draft.phase === 'end') !== (draft.begin_id !== undefined))
      complain('only an end names its begin, and it must')
    if (draft.shell !== undefined && draft.kind !== 'shell_invocation')
      complain('only a shell_invocation can contain text')
    if (draft.kind === 'denial' && draft.status !== 'denied' && draft.status !== 'blocked')
      complain('the status of a denial must be denied or blocked')
    if (draft.status === 'passed' && draft.decision?.effect === 'deny')
      complain('a denied request cannot have passed')
  })

/** The input of a caller. The log adds the id and the seal. */
export type ReceiptDraft = z.input<typeof receiptDraft>
export type ReceiptLinks = z.infer<typeof links>
export type Measure = z.infer<typeof measure>

/** A sealed receipt, parsed from its line. */
export interface Receipt {
  readonly body: z.infer<typeof receiptDraft> & { readonly schema: 'craik.receipt/1'; readonly id: ReceiptId }
  readonly seal: {
    readonly at: string
    readonly kid: string
    readonly prev: string
    readonly receipt_hmac: string
    readonly seq: number
  }
}
