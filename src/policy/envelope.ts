/** A policy envelope: which profile decides for which subject, and how a task restricts it further. */
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import type { EnvelopeId } from '../lib/ids.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { Store } from '../store/store.ts'
import { CAPABILITY_NAMES } from './capabilities.ts'
import { policyDigest } from './cedar.ts'
import { parseInput, reference, refuseSecrets } from './decision-request.ts'
import { type PolicyProfile, PROFILES } from './profiles.ts'
import { createEnvelopeProcedure } from './tokens.ts'

const capabilities = z.array(z.enum(CAPABILITY_NAMES)).max(100)

export const envelopeSchema = z
  .strictObject({
    id: reference,
    /** Null when the envelope is not bound to one task. */
    task_id: reference.nullable(),
    actor: reference,
    profile: z.enum(PROFILES),
    fail_open: z.boolean(),
    /** The lists only restrict. With null the profile alone decides. With a list, everything outside it is denied. */
    allowed_capabilities: capabilities.nullable(),
    denied_capabilities: capabilities,
    /** Capabilities that need a usable grant even where the profile does not require one. */
    approval_required: capabilities,
    verification_required: z.boolean(),
    handoff_required: z.boolean(),
    receipt_required: z.literal(true),
    redaction_required: z.literal(true),
    /** Operators besides the actor who can act under the envelope. */
    allowed_operators: z.array(reference).max(100),
    /**
     * Names of the only secrets and logins that can be used under the envelope. With null the profile alone decides.
     */
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
  /** The profile's Cedar text, from `profileText`. */
  readonly policyText: string
  readonly nowMs: number
  /** Default: `policy_<task>`. Required when there is no task. */
  readonly id?: string
  /** The explicit flag that trusted-local requires. */
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

/** Returns the terms as `buildEnvelope` writes them, before any check. */
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

/**
 * Returns whether a stored envelope equals a new one from `buildEnvelope`, except for its time. It was checked when it
 * was stored.
 */
export function isEnvelopeOf(stored: Envelope, options: EnvelopeOptions): boolean {
  return sameEnvelope(stored, envelopeTerms(options))
}

/** Checks the id last, because it derives from the task's id, and users know that one. */
export function requireNoSecrets({ id, ...terms }: Envelope): void {
  refuseSecrets({ ...terms, id }, 'the policy envelope')
}

export interface StoredEnvelope {
  readonly envelope: Envelope
  /** False when the same envelope was already stored. */
  readonly created: boolean
  readonly receipt?: ReceiptRef
}

/**
 * Stores an envelope and its policy text. Storing the same envelope again succeeds. A different one under its id is a
 * conflict. An envelope that fails open always gets a `policy.fail_open` receipt, others on request.
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

/** Returns whether two envelopes are equal in everything but their time of creation. */
export function sameEnvelope(a: Envelope, b: Readonly<Record<keyof Envelope, unknown>>): boolean {
  const fixedJson = (envelope: object) => canonicalJson({ ...envelope, created_at: '' } as Json)
  return fixedJson(a) === fixedJson(b)
}
