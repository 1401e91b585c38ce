/** A policy envelope: which profile decides for whom, and what this task tightens on top of it. */
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import type { EnvelopeId } from '../lib/ids.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { Store } from '../store/store.ts'
import { CAPABILITY_NAMES } from './capabilities.ts'
import { policyDigest } from './cedar.ts'
import { type PolicyProfile, PROFILES } from './profiles.ts'
import { parseInput, reference, refuseSecrets } from './request.ts'
import { createEnvelopeProcedure } from './tokens.ts'

const capabilities = z.array(z.enum(CAPABILITY_NAMES)).max(100)

export const envelopeSchema = z
  .strictObject({
    id: reference,
    /** Null: not bound to one task. */
    task_id: reference.nullable(),
    actor: reference,
    profile: z.enum(PROFILES),
    fail_open: z.boolean(),
    /** The lists only tighten. Null: the profile alone decides; a list: everything outside it is denied. */
    allowed_capabilities: capabilities.nullable(),
    denied_capabilities: capabilities,
    /** Need a usable grant even where the profile does not ask for one. */
    approval_required: capabilities,
    verification_required: z.boolean(),
    handoff_required: z.boolean(),
    receipt_required: z.literal(true),
    redaction_required: z.literal(true),
    /** Who besides the actor may act under it. */
    allowed_operators: z.array(reference).max(100),
    /** The only secrets and logins that may be used under it, by name. Null: the profile alone decides. */
    allowed_credential_refs: z.array(reference).max(100).nullable(),
    policy_digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
    created_at: z.iso.datetime(),
  })
  .superRefine(({ profile, fail_open }, context) => {
    if (fail_open && profile !== 'trusted-local') {
      context.addIssue({ code: 'custom', message: `${profile} never fails open; only trusted-local can` })
    }
    if (!fail_open && profile === 'trusted-local') {
      context.addIssue({ code: 'custom', message: 'trusted-local requires --trusted-local-fail-open' })
    }
  })

export type Envelope = z.infer<typeof envelopeSchema>

export interface EnvelopeOptions {
  readonly taskId: string | null
  readonly actor: string
  readonly profile: PolicyProfile
  /** The Cedar text of the profile, from `profileText`. */
  readonly policyText: string
  readonly nowMs: number
  /** Default `policy_<task>`; needed when there is no task. */
  readonly id?: string
  /** The explicit flag without which trusted-local does not exist. */
  readonly failOpen?: boolean
  readonly allowedCapabilities?: readonly string[]
  readonly deniedCapabilities?: readonly string[]
  readonly approvalRequired?: readonly string[]
  readonly verificationRequired?: boolean
  readonly handoffRequired?: boolean
  readonly allowedOperators?: readonly string[]
  readonly allowedCredentialRefs?: readonly string[]
}

export function buildEnvelope(options: EnvelopeOptions): Envelope {
  const { profile, failOpen = false } = options
  if (profile === 'trusted-local' && !failOpen) {
    throw new CraikError(
      'usage',
      'trusted-local allows requests that no rule decides, so it requires a flag',
      {
        hint: 'add --trusted-local-fail-open, or choose --profile strict',
      },
    )
  }
  if (profile !== 'trusted-local' && failOpen) {
    throw new CraikError(
      'usage',
      `--trusted-local-fail-open cannot be combined with ${profile}, which never fails open`,
      {
        hint: 'remove the flag, or choose --profile trusted-local',
      },
    )
  }
  const envelope = parseInput(envelopeSchema, envelopeTerms(options), 'the policy envelope')
  requireNoSecrets(envelope)
  return envelope
}

/** As `buildEnvelope` makes it, not checked yet. */
function envelopeTerms(options: EnvelopeOptions): Record<keyof Envelope, Json | undefined> {
  const { taskId, profile, failOpen = false } = options
  return {
    id: options.id ?? (taskId === null ? undefined : `policy_${taskId}`),
    task_id: taskId,
    actor: options.actor,
    profile,
    fail_open: failOpen,
    allowed_capabilities: options.allowedCapabilities ?? null,
    denied_capabilities: options.deniedCapabilities ?? [],
    approval_required: options.approvalRequired ?? [],
    verification_required: options.verificationRequired ?? true,
    handoff_required: options.handoffRequired ?? true,
    receipt_required: true,
    redaction_required: true,
    allowed_operators: options.allowedOperators ?? [],
    allowed_credential_refs: options.allowedCredentialRefs ?? null,
    policy_digest: policyDigest(options.policyText),
    created_at: new Date(options.nowMs).toISOString(),
  }
}

/** Whether a stored envelope is what `buildEnvelope` would make now, but for the moment: it was checked when it was stored. */
export function isEnvelopeOf(stored: Envelope, options: EnvelopeOptions): boolean {
  return sameEnvelope(stored, envelopeTerms(options))
}

/** The id is looked at last: it is made from the task's, which is what the reader gave. */
export function requireNoSecrets({ id, ...terms }: Envelope): void {
  refuseSecrets({ ...terms, id }, 'the policy envelope')
}

export interface StoredEnvelope {
  readonly envelope: Envelope
  /** False when the very same envelope was there already. */
  readonly created: boolean
  readonly receipt?: ReceiptRef
}

/**
 * Keeps an envelope and the policy text it was made with. The same envelope again is fine, another one under its
 * id is a conflict. One that fails open always leaves a `policy.fail_open` receipt, others on request.
 */
export function createEnvelope(
  store: Store,
  envelope: Envelope,
  policyText: string,
  options: { readonly operator: string; readonly receipt?: boolean },
): Promise<StoredEnvelope> {
  return store.write(createEnvelopeProcedure, { envelope, policyText, ...options })
}

export function getEnvelope(store: Store, id: string): Promise<Envelope | undefined> {
  return store.read(async (tables) => {
    const row = await tables.envelopes.get(id)
    return row && parseEnvelope(row.id, row.document)
  })
}

export function parseEnvelope(id: EnvelopeId, document: string): Envelope {
  const parsed = envelopeSchema.safeParse(JSON.parse(document))
  if (parsed.success && parsed.data.id === id) return parsed.data
  throw new CraikError('store_damaged', `policy envelope ${id} cannot be read`)
}

/** Everything but the moment it was made. */
export function sameEnvelope(a: Envelope, b: Readonly<Record<keyof Envelope, unknown>>): boolean {
  const fixed = (envelope: object) => canonicalJson({ ...envelope, created_at: '' } as Json)
  return fixed(a) === fixed(b)
}
