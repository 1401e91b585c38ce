/** Decides about actions in a sandbox. The decision and its receipt are stored before the caller gets the answer. */
import { type Denied, policyDeniedError } from '../policy/decide.ts'
import type { DecisionRequest } from '../policy/decision-request.ts'
import type { OpenReceipt, ReceiptLog } from '../receipts/receipt-log.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { GrantOutcome, ReceiptDraft } from '../receipts/schema.ts'
import type { Store } from '../store/store.ts'
import type { Availability, Isolation } from './backend.ts'
import { REQUIRED_CONTROLS, type SandboxControl } from './evaluate-sandbox-request.ts'
import { parseSandboxRequest, type SandboxRequest, type SandboxRequestInput } from './sandbox-request.ts'
import { type SandboxDecideOutput, sandboxDecideProcedure } from './tokens.ts'

export interface SandboxDecision {
  readonly status: 'allowed' | 'denied'
  readonly allowed: boolean
  /** A fixed sentence for each rule of Craik. For a rule of the policy, the sentence names the rule. */
  readonly reason: string
  readonly rule: string
  readonly required_controls: readonly SandboxControl[]
  /** The required controls that were missing. */
  readonly missing: readonly string[]
  readonly grant_outcome?: GrantOutcome
  /** A command to run next. Missing when the action is allowed. */
  readonly hint?: string
}

export type SandboxAnswer =
  | {
      readonly allowed: true
      readonly decision: SandboxDecision
      readonly request: SandboxRequest
      /** The open receipt. The effect may start now, and the caller must end the receipt. */
      readonly open: OpenReceipt
      readonly argv?: readonly string[]
    }
  | {
      readonly allowed: false
      readonly decision: SandboxDecision
      readonly request: SandboxRequest
      readonly receipt: ReceiptRef
    }

export interface SandboxDecisionOptions {
  /** The result of the backend's probe. Without it, the only supported isolation is `none`. */
  readonly availability?: Availability
  readonly links?: ReceiptDraft['links']
}

/**
 * Decides about one action in a sandbox. If allowed, its receipt has begun, and a grant that allowed it has lost one
 * use. If denied, a denial receipt is written and nothing may run.
 */
export async function decideSandboxAction(
  store: Store,
  log: ReceiptLog,
  input: SandboxRequestInput,
  { availability, links = {} }: SandboxDecisionOptions = {},
): Promise<SandboxAnswer> {
  const request = parseSandboxRequest(input)
  const reachable: Isolation = availability?.isolation ?? 'none'
  const output = await store.write(sandboxDecideProcedure, { request, reachable, links, owner: log.owner })
  if (output.effect === 'allowed') {
    const { rule, grantOutcome } = output.evaluation
    return {
      allowed: true,
      request,
      decision: {
        status: 'allowed',
        allowed: true,
        reason: `allowed by rule ${rule}`,
        rule,
        required_controls: REQUIRED_CONTROLS,
        missing: [],
        grant_outcome: grantOutcome,
      },
      open: log.openReceipt(output.ref, output.begin),
      ...(output.argv && { argv: output.argv }),
    }
  }
  const decision =
    output.effect === 'refused' ? toRefusedDecision(output, request, availability) : toDeniedDecision(output)
  return { allowed: false, request, decision, receipt: output.ref }
}

function toRefusedDecision(
  { refusal }: SandboxDecideOutput & { readonly effect: 'refused' },
  request: SandboxRequest,
  availability: Availability | undefined,
): SandboxDecision {
  const { rule, reason, missing, grantOutcome } = refusal
  const why =
    rule === 'sandbox.isolation' && availability?.reason ? `${reason}: ${availability.reason}` : reason
  return {
    status: 'denied',
    allowed: false,
    reason: why,
    rule,
    required_controls: REQUIRED_CONTROLS,
    missing,
    ...(grantOutcome && { grant_outcome: grantOutcome }),
    hint: hintFor(rule, request, availability),
  }
}

function hintFor(rule: string, request: SandboxRequest, availability: Availability | undefined): string {
  switch (rule) {
    case 'sandbox.isolation':
      return `${availability?.fix ?? 'see what works here:  craik demo persistent-agent'}  (or choose the weaker isolation: --isolation none)`
    case 'sandbox.policy':
    case 'sandbox.policy_unknown':
      return 'create a policy envelope first:  craik policy show --profile automation --include-receipt'
    case 'sandbox.grant':
    case 'sandbox.grant_unknown':
    case 'sandbox.grant_is_receipt':
      return `list the grants:  craik grant list  (the request needs ${request.capability})`
    case 'sandbox.receipt':
    case 'sandbox.receipt_unknown':
      return 'pass the receipt that led to this request:  craik receipts list'
    case 'sandbox.inline_command':
    case 'sandbox.command_unknown':
      return 'name a registered command:  craik command register REF -- PROGRAM ARGUMENTS'
    default:
      return 'see docs/reference/registered-commands.md for what each kind of sandbox needs'
  }
}

function toDeniedDecision(output: SandboxDecideOutput & { readonly effect: 'denied' }): SandboxDecision {
  const { rule, missing, grantOutcome, grantWouldHelp } = output.evaluation
  const denied: Denied = {
    effect: 'deny',
    rule,
    missing,
    grantOutcome,
    grantWouldHelp,
    receipt: output.ref,
    ...(output.profile && { profile: output.profile }),
  }
  const { message, hint } = policyDeniedError(denied, output.asked as DecisionRequest)
  return {
    status: 'denied',
    allowed: false,
    reason: message,
    rule,
    required_controls: REQUIRED_CONTROLS,
    missing,
    grant_outcome: grantOutcome,
    hint,
  }
}
