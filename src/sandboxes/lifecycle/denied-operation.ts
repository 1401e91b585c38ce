/** Converts denials to errors. */
import { CraikError } from '../../errors.ts'
import { denialIn, policyDeniedError } from '../../policy/decide.ts'
import { EXPLICIT_FIELD_RULES } from './explicit-fields.ts'
import type { Denied } from './tokens.ts'

/** The rule that only the operator who started a job may use it. It is not part of any policy text. */
export const JOB_OPERATOR_RULE = 'sandbox.job_operator'

/** Returns a denial as the error that the caller gets. */
export function deniedOperationError({
  ref,
  asked: request,
  evaluation,
  profile,
  fields,
}: Denied): CraikError {
  const { rule, missing, grantOutcome } = evaluation
  const details = { rule, missing, grant_outcome: grantOutcome, receipt_id: ref.id }
  if (fields !== undefined && isExplicitFieldRule(rule)) {
    return new CraikError(
      'denied',
      `${request.target} is denied by rule ${rule}: ${EXPLICIT_FIELD_RULES[rule]}`,
      {
        hint: `${EXPLICIT_FIELD_HINTS[rule](fields)}  (receipt ${ref.id})`,
        details: { ...details, fields },
      },
    )
  }
  if (rule === JOB_OPERATOR_RULE) {
    return new CraikError('denied', `the job in ${request.target} was started by another operator`, {
      hint: `show your identity:  craik whoami   (nothing was done; receipt ${ref.id})`,
      details,
    })
  }
  return policyDeniedError(denialIn({ evaluation, ref, profile }), request)
}

const EXPLICIT_FIELD_HINTS: Readonly<
  Record<keyof typeof EXPLICIT_FIELD_RULES, (fields: readonly string[]) => string>
> = {
  'sandbox.request_incomplete': (fields) =>
    `set ${fields.join(', ')}; docs/reference/operator-api.md lists all fields`,
  'sandbox.network': () => 'set network to none; the gateway forwards the connections that grants allow',
  'sandbox.mount': () => 'set mode to read_only, or work in the folder itself: workspace {mode: in-place}',
}

function isExplicitFieldRule(rule: string): rule is keyof typeof EXPLICIT_FIELD_RULES {
  return Object.hasOwn(EXPLICIT_FIELD_RULES, rule)
}
