/** The request for a decision: the subject, the action, the target, the envelope and the grant. */
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { REFERENCE } from '../lib/ids.ts'
import { CleanJson } from '../receipts/redaction/redact.ts'
import { normalisePath } from './path-patterns.ts'

export const reference = z
  .string()
  .regex(REFERENCE, 'must be letters, digits and . _ : / @ -, at most 200 characters')

export const capabilityName = z
  .string()
  .max(100)
  .regex(/^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$/, 'must be lower-case words joined by dots, such as repo.read')

export const scopeIds = z.strictObject({
  session_id: reference.optional(),
  task_id: reference.optional(),
  run_id: reference.optional(),
  /** The sandbox that acts for its operator. */
  sandbox_id: reference.optional(),
})

const path = z.string().transform((value, context) => {
  const normalised = normalisePath(value)
  if (normalised !== undefined) return normalised
  context.addIssue({
    code: 'custom',
    message: 'must not be empty or contain ".." or control characters',
  })
  return z.NEVER
})

export const decisionRequest = z.strictObject({
  /** The subject that acts: the operator, or an agent that acts for the operator. */
  operator: reference,
  capability: capabilityName,
  operation: reference,
  target: reference,
  path: path.optional(),
  repo: reference.optional(),
  /** The name of the secret or login that the effect would use. */
  credential_ref: reference.optional(),
  scope: scopeIds.default({}),
  policy_envelope_id: reference.optional(),
  grant_id: reference.optional(),
})

export type DecisionRequest = z.infer<typeof decisionRequest>
export type DecisionRequestInput = z.input<typeof decisionRequest>

/** Parses a request. Refuses a reference that looks like a secret, because references are stored unchanged. */
export function parseRequest(input: unknown): DecisionRequest {
  const request = parseInput(decisionRequest, input, 'the request')
  const { path: _, ...references } = request
  refuseSecrets(references, 'the request')
  return request
}

/** Throws when a text of the record looks like a secret. The error names its position without repeating it. */
export function refuseSecrets(record: object, what: string): void {
  const where = secretIn(record, [])
  if (where === undefined) return
  throw new CraikError('usage', `${what}: ${where.join('.')} looks like a secret`, {
    hint: 'use the name of a secret, never its value',
  })
}

/** The same operators, providers and sessions occur again and again. */
const known = new CleanJson()

/** Checks each text by itself: the name of a Craik field says nothing about the value that a caller passes. */
function secretIn(value: unknown, at: readonly string[]): readonly string[] | undefined {
  if (typeof value === 'string') return known.texts.has(value) ? undefined : at
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = secretIn(member, [...at, key])
    if (found !== undefined) return found
  }
  return undefined
}

/** Parses with one schema and reports errors in one line. */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown, what: string): z.output<T> {
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? what : `${what}: ${issue.path.join('.')}`
  throw new CraikError('usage', `${where}: ${issue?.message ?? 'invalid'}`)
}
