/** Denials as errors. */
import { CraikError } from '../../errors.ts'
import { deniedError } from '../../policy/decide.ts'
import type { Denied } from './tokens.ts'

/** The rule by which a job is only for who started it; no policy text says so. */
export const JOB_OPERATOR_RULE = 'sandbox.job_operator'

/** A denial as the error that the caller is told. */
export function deniedOperation({ ref, asked, evaluation, profile }: Denied): CraikError {
  const { rule, missing, grantOutcome, grantWouldHelp } = evaluation
  if (rule === JOB_OPERATOR_RULE) {
    return new CraikError('denied', `the job in ${asked.target} was started by somebody else`, {
      hint: `nothing was done (receipt ${ref.id}); see who you are:  craik whoami`,
      details: { rule, missing, grant_outcome: grantOutcome, receipt_id: ref.id },
    })
  }
  return deniedError(
    {
      effect: 'deny',
      rule,
      missing,
      grantOutcome,
      grantWouldHelp,
      receipt: ref,
      ...(profile && { profile }),
    },
    asked,
  )
}
