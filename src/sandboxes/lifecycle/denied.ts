/** Denials as errors. */
import { CraikError } from '../../errors.ts'
import { denialIn, deniedError } from '../../policy/decide.ts'
import { STATED_RULES } from './stated.ts'
import type { Denied } from './tokens.ts'

/** The rule by which a job is only for who started it; no policy text says so. */
export const JOB_OPERATOR_RULE = 'sandbox.job_operator'

/** A denial as the error that the caller is told. */
export function deniedOperation({ ref, asked, evaluation, profile, fields }: Denied): CraikError {
  const { rule, missing, grantOutcome } = evaluation
  const details = { rule, missing, grant_outcome: grantOutcome, receipt_id: ref.id }
  if (fields !== undefined && isStatedRule(rule)) {
    return new CraikError('denied', `${asked.target} is denied by rule ${rule}: ${STATED_RULES[rule]}`, {
      hint: `${STATED_HINTS[rule](fields)}  (receipt ${ref.id})`,
      details: { ...details, fields },
    })
  }
  if (rule === JOB_OPERATOR_RULE) {
    return new CraikError('denied', `the job in ${asked.target} was started by somebody else`, {
      hint: `nothing was done (receipt ${ref.id}); see who you are:  craik whoami`,
      details,
    })
  }
  return deniedError(denialIn({ evaluation, ref, profile }), asked)
}

const STATED_HINTS: Readonly<Record<keyof typeof STATED_RULES, (fields: readonly string[]) => string>> = {
  'sandbox.request_incomplete': (fields) => `say ${fields.join(', ')} too; docs/operator-api.md has them all`,
  'sandbox.network': () =>
    'ask for the network none; what goes out goes through the boundary, where it is granted',
  'sandbox.mount': () => 'ask for read_only, or work in the folder itself: workspace {mode: in-place}',
}

function isStatedRule(rule: string): rule is keyof typeof STATED_RULES {
  return Object.hasOwn(STATED_RULES, rule)
}
