/** The hint of `egress test` after a denial. */
import { findBlockedReason, suggestAlternative } from '../../gateway/egress/blocked-hosts.ts'
import { type EgressRequest, type EgressRule, findMismatch, HTTPS_PORT } from '../../gateway/egress/rules.ts'
import { formatTarget } from './describe.ts'

interface Refused {
  readonly rule: string
  readonly ruleId?: string | undefined
  /** Explains why a resolved address is not on the public internet. */
  readonly problem?: string | undefined
}

/**
 * `rules` are those of the sandbox. `sandbox` is its name or id as the user typed it. Returns undefined if there is no
 * advice.
 */
export function suggestFix(
  request: EgressRequest,
  { rule, ruleId, problem }: Refused,
  rules: readonly EgressRule[],
  sandbox: string,
): string | undefined {
  const never = problem === undefined ? findBlockedReason(request)?.hint : suggestAlternative(problem)
  if (never !== undefined) return never
  switch (rule) {
    case 'egress.no_rule':
      return explainMismatch(request, rules, sandbox) ?? `allow it:  ${formatAllowCommand(request, sandbox)}`
    case 'egress.blocked':
      return ruleId && `remove the block:  craik egress deny ${ruleId}`
    case 'egress.token_endpoint':
      return 'leave it blocked: Craik renews logins there, and the placeholder credentials in this sandbox need no renewal'
    case 'egress.damaged_rules':
      return 'list the damaged rules:  craik egress list   and remove them:  craik egress deny RULE'
    default:
      return undefined
  }
}

/**
 * Returns advice if a rule allows this host, but not this request: what it allows, and the command that allows the
 * request.
 */
function explainMismatch(
  request: EgressRequest,
  rules: readonly EgressRule[],
  sandbox: string,
): string | undefined {
  for (const rule of rules) {
    const missed = findMismatch(rule, request)
    if (missed === undefined) continue
    const about = `${rule.id} allows ${formatTarget(rule)}`
    if (missed === 'tunnel')
      return `${about}, over plain HTTP only: TLS hides the method and the path; allow the whole host:  ${formatAllowCommand(request, sandbox)}`
    if (missed === 'port') return `${about}; allow this port:  ${formatAllowCommand(request, sandbox)}`
    return `${about}; allow this ${missed}:  ${formatAllowCommand(request, sandbox, true)}`
  }
  return undefined
}

/** `limited` allows only the method and the path of the request. */
function formatAllowCommand(
  { host, form, port, method, path }: EgressRequest,
  sandbox: string,
  limited = false,
): string {
  const name = form === 'ipv6' ? `[${host}]` : host
  const what = `${name}${port === HTTPS_PORT ? '' : `:${port}`}${limited && isTypable(path) ? path : ''}`
  return `craik egress allow ${what}${limited ? ` --method ${method}` : ''} --sandbox ${sandbox}`
}

/** Returns whether a shell would take the path literally. */
function isTypable(path: string | undefined): path is string {
  return path !== undefined && /^[\w./~-]+$/.test(path)
}
