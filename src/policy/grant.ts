/** A grant: one operator allows one subject named actions on a named target, for a time and a number of uses. */
import { z } from 'zod'
import type { GrantOutcome } from '../receipts/schema.ts'
import { isCapability } from './capabilities.ts'
import { capabilityName, type DecisionRequest, reference, scopeIds } from './decision-request.ts'
import { matchesPattern, normalisePattern } from './path-patterns.ts'

export const DEFAULT_LIFETIME_MS = 8 * 3600 * 1000
const MAX_USES = 1_000_000

const pattern = z.string().transform((value, context) => {
  const normalised = normalisePattern(value)
  if (normalised !== undefined) return normalised
  context.addIssue({
    code: 'custom',
    message: 'must be a path without ".."; * and ** must be whole segments',
  })
  return z.NEVER
})

/** `any` must be explicit. An empty scope is refused. */
const scope = z.union([
  z.literal('any'),
  scopeIds.refine((ids) => Object.values(ids).some((id) => id !== undefined), {
    message: 'a grant needs a task, session, run or sandbox; use "any" for all of them',
  }),
])

/**
 * Without `ref`, any reference matches. Without `repo` or `paths`, only requests that name none match: a grant without
 * paths does not authorize actions at a path.
 */
const target = z
  .strictObject({
    ref: reference.optional(),
    repo: reference.optional(),
    paths: z.array(pattern).min(1).max(50).optional(),
    exclude: z.array(pattern).min(1).max(50).optional(),
  })
  .refine((value) => value.exclude === undefined || value.paths !== undefined, {
    message: 'exclude requires paths',
  })

export const grantTerms = z.strictObject({
  capability: capabilityName.refine(isCapability, { message: 'is not a known capability' }),
  subject: reference,
  scope,
  target: target.default({}),
  operations: z.array(reference).min(1).max(20),
  /** Null: any number of uses until it expires. */
  max_uses: z.int().min(1).max(MAX_USES).nullable().default(1),
  reason: z.string().max(500).optional(),
  approved_by: reference,
})

export const grantSchema = grantTerms.extend({
  id: z.string().regex(/^grant_[0-9A-HJKMNP-TV-Z]{26}$/),
  expires_at: z.iso.datetime(),
  created_at: z.iso.datetime(),
})

export type GrantTerms = z.input<typeof grantTerms>
export type Grant = z.infer<typeof grantSchema>

/** The record that the store holds under the grant id of a request. */
export const foundGrant = z.discriminatedUnion('found', [
  z.strictObject({
    found: z.literal('grant'),
    id: reference,
    capability: capabilityName,
    subject: reference,
    scope,
    target,
    operations: z.array(reference),
    expires_at_ms: z.int(),
    uses_left: z.int().nonnegative().nullable(),
    revoked: z.boolean(),
  }),
  z.strictObject({ found: z.literal('receipt'), id: reference }),
  z.strictObject({ found: z.literal('nothing'), id: reference }),
])

export type FoundGrant = z.infer<typeof foundGrant>

/** A receipt records an action and never authorizes one. */
export function looksLikeReceipt(id: string): boolean {
  return /^rcpt_/i.test(id)
}

/** Returns whether a grant fits a request at a time, or else the first mismatch in a fixed order. */
export function checkGrant(
  grant: FoundGrant | null | undefined,
  request: DecisionRequest,
  nowMs: number,
): GrantOutcome {
  if (request.grant_id === undefined || grant === null || grant === undefined) return 'missing'
  if (looksLikeReceipt(request.grant_id) || grant.found === 'receipt') return 'not_a_grant'
  if (grant.found === 'nothing' || grant.id !== request.grant_id) return 'missing'
  if (grant.capability !== request.capability) return 'wrong_capability'
  if (grant.subject !== request.operator) return 'wrong_subject'
  if (!coversScope(grant.scope, request.scope)) return 'wrong_scope'
  if (!coversTarget(grant.target, request)) return 'wrong_target'
  if (!grant.operations.includes(request.operation)) return 'wrong_operation'
  if (nowMs >= grant.expires_at_ms) return 'expired'
  if (grant.revoked) return 'revoked'
  if (grant.uses_left !== null && grant.uses_left <= 0) return 'used_up'
  return 'usable'
}

function coversScope(scope: Grant['scope'], requested: DecisionRequest['scope']): boolean {
  if (scope === 'any') return true
  const fits = (key: keyof DecisionRequest['scope']) =>
    scope[key] === undefined || scope[key] === requested[key]
  return fits('session_id') && fits('task_id') && fits('run_id') && fits('sandbox_id')
}

function coversTarget(
  { ref, repo, paths, exclude }: Grant['target'],
  { target, repo: at, path }: DecisionRequest,
): boolean {
  if (ref !== undefined && ref !== target) return false
  if (repo !== at) return false
  if (paths === undefined || path === undefined) return paths === path
  return paths.some((one) => matchesPattern(one, path)) && !exclude?.some((one) => matchesPattern(one, path))
}
