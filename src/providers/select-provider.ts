/** Selects the provider that a call would use. It opens no connection, reads no secret and grants nothing. */
import { CraikError } from '../errors.ts'
import { parseReference } from '../lib/ids.ts'
import { redactValue } from '../receipts/redaction/redact.ts'
import { findProvider } from './load-providers.ts'
import type { ProviderRecord } from './provider-record.ts'

const MAX_RECEIPTS = 100

export interface Selection {
  readonly provider_id: string
  readonly provider: ProviderRecord['provider']
  readonly name: string
  readonly mode: string
  readonly trust_boundary: ProviderRecord['trust_boundary']
  readonly runtime_path: string | null
  readonly config_refs: readonly string[]
  readonly secret_ref_names: readonly string[]
  readonly budget_ref: string
  readonly quota_ref: string
  readonly policy_envelope_id: string | null
  readonly receipt_ids: readonly string[]
  readonly redacted: true
}

export interface SelectOptions {
  readonly mode: string
  readonly policyEnvelopeId?: string
  readonly receiptIds?: readonly string[]
}

export function selectProvider(
  records: readonly ProviderRecord[],
  id: string,
  { mode, policyEnvelopeId, receiptIds = [] }: SelectOptions,
): Selection {
  const record = findProvider(records, id)
  if (!record.modes.some((known) => known === mode)) {
    const shown = /^[a-z_-]{1,30}$/.test(mode) ? `'${mode}'` : 'that mode'
    throw new CraikError(
      'usage',
      `${record.id} does not support ${shown} (supported: ${record.modes.join(', ')})`,
      {
        hint: `show the provider:  craik provider show ${record.id}`,
      },
    )
  }
  if (receiptIds.length > MAX_RECEIPTS)
    throw new CraikError(
      'too_large',
      `${receiptIds.length} receipt ids are too many: at most ${MAX_RECEIPTS} can be linked`,
      { hint: 'name fewer receipts' },
    )
  return {
    provider_id: record.id,
    provider: record.provider,
    name: record.name,
    mode,
    trust_boundary: record.trust_boundary,
    runtime_path: record.runtime_path,
    config_refs: record.config_refs,
    secret_ref_names: record.secret_ref_names,
    budget_ref: record.budget_ref,
    quota_ref: record.quota_ref,
    policy_envelope_id:
      policyEnvelopeId === undefined ? null : publicReference(policyEnvelopeId, 'policy envelope'),
    receipt_ids: receiptIds.map((receipt) => publicReference(receipt, 'receipt')),
    redacted: true,
  }
}

/** The result repeats these ids, and records and terminals then contain them. */
function publicReference(text: string, what: string): string {
  if (redactValue(text).redacted)
    throw new CraikError('usage', `the ${what} looks like a secret`, {
      hint: 'use an id, and replace the secret if others could see it',
    })
  return parseReference(text, what)
}
