/** The fixed vocabularies of a receipt. */

export const RECEIPT_KINDS = [
  'environment_decision',
  'provider_action',
  'sandbox_action',
  'denial',
  'shell_invocation',
  'budget',
  'grant',
  'login',
  'egress',
  'mcp',
] as const

export const RECEIPT_STATUSES = ['passed', 'failed', 'denied', 'blocked', 'skipped', 'indeterminate'] as const
export type ReceiptStatus = (typeof RECEIPT_STATUSES)[number]

/** Why a grant allowed the request, or did not. */
export const GRANT_OUTCOMES = [
  'not_required',
  'usable',
  'missing',
  'not_a_grant',
  'wrong_capability',
  'wrong_subject',
  'wrong_scope',
  'wrong_target',
  'wrong_operation',
  'expired',
  'revoked',
  'used_up',
] as const
export type GrantOutcome = (typeof GRANT_OUTCOMES)[number]
