/** Requests a decision. The decision and its receipt are durable before the answer arrives. */
import { CraikError } from '../errors.ts'
import { quoteArgument } from '../lib/shlex.ts'
import type { OpenReceipt, ReceiptLog } from '../receipts/receipt-log.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { GrantOutcome } from '../receipts/schema.ts'
import type { Store } from '../store/store.ts'
import { type DecisionRequestInput, parseRequest } from './decision-request.ts'
import type { Control, Evaluation } from './evaluate.ts'
import type { PolicyProfile } from './profiles.ts'
import { decideProcedure, type EffectReceipt } from './tokens.ts'

interface Allowed {
  readonly effect: 'allow'
  readonly rule: string
  readonly grantOutcome: GrantOutcome
  /** The effect can start. The caller must end this receipt. */
  readonly open: OpenReceipt
}

export interface Denied<Ref = ReceiptRef> {
  readonly effect: 'deny'
  readonly rule: string
  readonly missing: readonly Control[]
  readonly grantOutcome: GrantOutcome
  readonly grantWouldHelp: boolean
  readonly profile?: PolicyProfile
  readonly receipt: Ref
}

export type Decision = Allowed | Denied

/**
 * Decides about one effect. An allowed effect gets a begin receipt, and uses up one use of the grant if the grant
 * allowed it. A denied one gets a denial receipt. Rejects if the receipt cannot be written: then nothing can run.
 */
export async function decide(
  store: Store,
  log: ReceiptLog,
  request: DecisionRequestInput,
  receipt: EffectReceipt,
): Promise<Decision> {
  const input = { request: parseRequest(request), receipt, owner: log.owner }
  const decided = await store.write(decideProcedure, input)
  const { evaluation, ref, begin } = decided
  if (evaluation.effect === 'allow' && begin !== undefined) {
    const { rule, grantOutcome } = evaluation
    return { effect: 'allow', rule, grantOutcome, open: log.openReceipt(ref, begin) }
  }
  return denialIn(decided)
}

interface Evaluated<Ref> {
  readonly evaluation: Pick<Evaluation, 'rule' | 'missing' | 'grantOutcome' | 'grantWouldHelp'>
  readonly ref: Ref
  readonly profile?: PolicyProfile | undefined
}

/** Returns the denial of a decision that did not allow its effect. */
export function denialIn<Ref>({ evaluation, ref, profile }: Evaluated<Ref>): Denied<Ref> {
  const { rule, missing, grantOutcome, grantWouldHelp } = evaluation
  const why = { rule, missing, grantOutcome, grantWouldHelp, ...(profile && { profile }) }
  return { effect: 'deny', ...why, receipt: ref }
}

/**
 * Returns a denial as an error: what was denied, by which rule, and what to type next. `withGrant` is the command that
 * uses a grant once it exists.
 */
export function policyDeniedError(
  decision: Denied<ReceiptRef | undefined>,
  request: DecisionRequestInput,
  withGrant?: string,
): CraikError {
  const { rule, missing, receipt } = decision
  const then = withGrant !== undefined && canBeGranted(decision) ? `, then:  ${withGrant}` : ''
  const why = describeDenial(decision, request)
  const see = receipt === undefined ? '' : `  (receipt ${receipt.id})`
  return new CraikError(
    'denied',
    `${request.capability} on ${request.target} is denied by rule ${rule}${why}`,
    {
      hint: `${nextStep(decision, request)}${see}${then}`,
      details: {
        rule,
        missing,
        grant_outcome: decision.grantOutcome,
        ...(receipt !== undefined && { receipt_id: receipt.id }),
      },
    },
  )
}

/**
 * Returns text such as `: grant g has expired (missing: capability_grant)`. A grant that would not help is not listed
 * as missing.
 */
export function describeDenial(
  { missing, grantOutcome, grantWouldHelp }: Pick<Denied, 'missing' | 'grantOutcome' | 'grantWouldHelp'>,
  { grant_id }: Pick<DecisionRequestInput, 'grant_id'>,
): string {
  const grant = grant_id === undefined ? '' : REFUSALS[grantOutcome]
  const helpful = missing.filter((control) => control !== 'capability_grant' || grantWouldHelp)
  return `${grant && `: ${grant_id} ${grant}`}${helpful.length === 0 ? '' : ` (missing: ${helpful.join(', ')})`}`
}

/** Why an offered grant was not usable. */
const REFUSALS: Readonly<Record<GrantOutcome, string>> = {
  not_required: '',
  usable: '',
  missing: 'does not exist',
  not_a_grant: 'is a receipt, not a grant',
  wrong_capability: 'is a grant for another capability',
  wrong_subject: 'is a grant for another subject',
  wrong_scope: 'is a grant for another task, session, run or sandbox',
  wrong_target: 'is a grant for another target',
  wrong_operation: 'is a grant for other operations',
  expired: 'has expired',
  revoked: 'was revoked',
  used_up: 'has no uses left',
}

function nextStep(denied: Denied<unknown>, request: DecisionRequestInput): string {
  const { missing, rule, profile = 'strict' } = denied
  if (missing.includes('policy_envelope')) {
    const task =
      request.scope?.task_id === undefined ? '' : ` --task-id ${quoteArgument(request.scope.task_id)}`
    return `create a policy envelope first:  craik policy show${task} --include-receipt`
  }
  if (canBeGranted(denied)) return `grant it once:  ${grantCommand(request)}`
  const flag = profile === 'trusted-local' ? ' --trusted-local-fail-open' : ''
  return `show the rule ${rule}, which no grant overrides:  craik policy show --profile ${profile}${flag}`
}

function canBeGranted({ missing, grantWouldHelp }: Denied<unknown>): boolean {
  return grantWouldHelp && !missing.includes('policy_envelope')
}

/** Returns the command that grants exactly the requested action. */
function grantCommand({
  capability,
  operator,
  operation,
  target,
  repo,
  path,
  scope = {},
}: DecisionRequestInput): string {
  const where = (['task', 'session', 'run', 'sandbox'] as const).find(
    (kind) => scope[`${kind}_id`] !== undefined,
  )
  const flags: [string, string | undefined][] = [
    ['--capability', capability],
    ['--subject', operator],
    ['--operation', operation],
    ['--target', target],
    ['--repo', repo],
    ['--path', path],
    [where === undefined ? '--any-scope' : `--${where}-id`, where === undefined ? '' : scope[`${where}_id`]],
  ]
  const serialized = flags.map(([flag, value]) => {
    if (value === undefined) return ''
    return value === '' ? ` ${flag}` : ` ${flag} ${quoteArgument(value)}`
  })
  return `craik grant create${serialized.join('')}`
}
