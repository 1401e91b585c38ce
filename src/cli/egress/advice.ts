/** What to type next when `egress test` says that something would be refused. */
import { insteadOf, neverAllowed } from '../../gateway/egress/never-reached.ts'
import { type EgressRequest, type EgressRule, HTTPS_PORT, missedBy } from '../../gateway/egress/rules.ts'
import { whereTo } from './describe.ts'

interface Refused {
  readonly rule: string
  readonly ruleId?: string | undefined
  /** Why an address that was found is not of the public internet. */
  readonly problem?: string | undefined
}

/** `rules`: those of the sandbox. `sandbox`: as it was typed. Undefined: there is nothing to be done about it. */
export function adviceFor(
  asked: EgressRequest,
  { rule, ruleId, problem }: Refused,
  rules: readonly EgressRule[],
  sandbox: string,
): string | undefined {
  const never = problem === undefined ? neverAllowed(asked)?.hint : insteadOf(problem)
  if (never !== undefined) return never
  switch (rule) {
    case 'egress.no_rule':
      return nearMiss(asked, rules, sandbox) ?? `allow it:  ${allowing(asked, sandbox)}`
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
function nearMiss(asked: EgressRequest, rules: readonly EgressRule[], sandbox: string): string | undefined {
  for (const rule of rules) {
    const missed = missedBy(rule, asked)
    if (missed === undefined) continue
    const about = `${rule.id} allows ${whereTo(rule)}`
    if (missed === 'tunnel')
      return `${about}, over plain HTTP only: TLS hides the method and the path; allow the whole host:  ${allowing(asked, sandbox)}`
    if (missed === 'port') return `${about}; allow this port:  ${allowing(asked, sandbox)}`
    return `${about}; allow this ${missed}:  ${allowing(asked, sandbox, true)}`
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
