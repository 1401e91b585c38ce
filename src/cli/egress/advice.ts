/** What to type next when `egress test` says that something would be refused. */
import { findBlockedReason, suggestAlternative } from '../../gateway/egress/blocked-hosts.ts'
import { type EgressRequest, type EgressRule, findMismatch, HTTPS_PORT } from '../../gateway/egress/rules.ts'
import { whereTo } from './describe.ts'

interface Refused {
  readonly rule: string
  readonly ruleId?: string | undefined
  /** Why an address that was found is not of the public internet. */
  readonly problem?: string | undefined
}

/** `rules`: those of the sandbox. `sandbox`: as it was typed. Undefined: there is nothing to be done about it. */
export function adviceFor(
  request: EgressRequest,
  { rule, ruleId, problem }: Refused,
  rules: readonly EgressRule[],
  sandbox: string,
): string | undefined {
  const never = problem === undefined ? findBlockedReason(request)?.hint : suggestAlternative(problem)
  if (never !== undefined) return never
  switch (rule) {
    case 'egress.no_rule':
      return nearMiss(request, rules, sandbox) ?? `allow it:  ${allowing(request, sandbox)}`
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

/** Where a rule is about this host, and not about this: what it is about, and what would be. */
function nearMiss(request: EgressRequest, rules: readonly EgressRule[], sandbox: string): string | undefined {
  for (const rule of rules) {
    const missed = findMismatch(rule, request)
    if (missed === undefined) continue
    const about = `${rule.id} allows ${whereTo(rule)}`
    if (missed === 'tunnel')
      return `${about}, over plain HTTP only: TLS hides the method and the path; allow the whole host:  ${allowing(request, sandbox)}`
    if (missed === 'port') return `${about}; allow this port:  ${allowing(request, sandbox)}`
    return `${about}; allow this ${missed}:  ${allowing(request, sandbox, true)}`
  }
  return undefined
}

/** `limited`: just this method and path. */
function allowing(
  { host, form, port, method, path }: EgressRequest,
  sandbox: string,
  limited = false,
): string {
  const name = form === 'ipv6' ? `[${host}]` : host
  const what = `${name}${port === HTTPS_PORT ? '' : `:${port}`}${limited && isTypable(path) ? path : ''}`
  return `craik egress allow ${what}${limited ? ` --method ${method}` : ''} --sandbox ${sandbox}`
}

/** Without anything that a shell would take for something else. */
function isTypable(path: string | undefined): path is string {
  return path !== undefined && /^[\w./~-]+$/.test(path)
}
