/** An egress rule: hosts, ports, and for plain HTTP also methods and a path prefix. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { reference } from '../../policy/decision-request.ts'
import { findBlockedReason } from './blocked-hosts.ts'
import { type Host, isNameProblem, parseHost, parsePort } from './egress-destination.ts'
import { canonicalPath, isWithin } from './url-paths.ts'

export const HTTPS_PORT = 443
export const MAX_RULES = 200
const MAX_HOSTS = 64
const MAX_PORTS = 8

/** A request to check against the rules. */
export interface EgressRequest {
  readonly host: string
  readonly form: Host['form']
  readonly port: number
  readonly protocol: 'connect' | 'http'
  readonly method?: string | undefined
  /** `undefined` when the request has no path, or an ambiguous one. */
  readonly path?: string | undefined
}

const port = z.int().min(1).max(65_535)
const method = z.string().regex(/^[A-Z]{1,20}$/, 'must be an HTTP method, such as GET')
const host = z
  .string()
  .refine((text) => parsePattern(text) === text, { message: 'is not a host in canonical form' })
const path = z
  .string()
  .max(1000)
  .refine((text) => canonicalPath(encodeURI(text)) === text, {
    message: 'is not a path in canonical form',
  })

/** The fields that are matched. A decision records their digest. */
export const ruleTerms = z.strictObject({
  id: reference,
  effect: z.enum(['allow', 'deny']),
  /** A name, an address, or `*.` and a name, which matches the names below it at any depth. */
  hosts: z.array(host).min(1).max(MAX_HOSTS),
  /** Null, in a rule that denies, means all ports. */
  ports: z.array(port).min(1).max(MAX_PORTS).nullable(),
  /** Null means all methods, and tunnels. */
  methods: z.array(method).min(1).max(10).nullable(),
  path: path.nullable(),
})

export const egressRule = ruleTerms
  .extend({
    operator: reference,
    /** Null means all sandboxes of the operator. */
    sandbox_id: reference.nullable(),
    preset: reference.nullable(),
    /** The grant that the rule depends on. A rule that denies has none. */
    grant_id: reference.nullable(),
    approved_by: reference,
    created_at_ms: z.int(),
    expires_at_ms: z.int().nullable(),
  })
  .superRefine(({ effect, ports, grant_id }, context) => {
    if (effect === 'allow' && (ports === null || grant_id === null))
      context.addIssue({ code: 'custom', message: 'a rule that allows needs ports and a grant' })
  })

export type RuleTerms = z.infer<typeof ruleTerms>
export type EgressRule = z.infer<typeof egressRule>

/** Returns the matching rules, the most exact first, or only those that deny if there are any. */
export function fittingRules<Rule extends RuleTerms>(
  rules: readonly Rule[],
  request: EgressRequest,
): readonly Rule[] {
  const fitting = rules.filter((rule) => fits(rule, request))
  const denying = fitting.filter(({ effect }) => effect === 'deny')
  return denying.length > 0 ? denying : fitting.sort((a, b) => exactness(b, request) - exactness(a, request))
}

function fits({ effect, hosts, ports, methods, path }: RuleTerms, request: EgressRequest): boolean {
  if (!hosts.some((pattern) => fitsHost(pattern, request))) return false
  if (ports?.includes(request.port) === false) return false
  if (effect === 'deny') return true
  // Craik cannot see methods and paths inside a tunnel.
  if (request.protocol === 'connect') return methods === null && path === null
  if (methods?.includes(request.method ?? '') === false) return false
  return path === null || (request.path !== undefined && isWithin(path, request.path))
}

/** Returns why an allowing rule for this host does not match. `undefined` when it matches, or is for another host. */
export function findMismatch(
  rule: RuleTerms,
  request: EgressRequest,
): 'port' | 'tunnel' | 'method' | 'path' | undefined {
  const { effect, hosts, ports, methods, path } = rule
  if (effect === 'deny' || !hosts.some((pattern) => fitsHost(pattern, request))) return undefined
  if (request.protocol === 'connect' && (methods !== null || path !== null)) return 'tunnel'
  if (ports?.includes(request.port) === false) return 'port'
  if (fits(rule, request)) return undefined
  return methods?.includes(request.method ?? '') === false ? 'method' : 'path'
}

/** A pattern with a star matches names only, and never the name after the star itself. */
function fitsHost(pattern: string, { host, form }: EgressRequest): boolean {
  if (!pattern.startsWith('*.')) return pattern === patternOf({ host, form })
  return form === 'name' && host.length > pattern.length - 1 && host.endsWith(pattern.slice(1))
}

function exactness({ hosts, path }: RuleTerms, request: EgressRequest): number {
  return (hosts.includes(patternOf(request)) ? 10_000 : 0) + (path?.length ?? 0)
}

function patternOf({ host, form }: Host): string {
  return form === 'ipv6' ? `[${host}]` : host
}

/** Returns a host in the form that rules use, or `undefined`. */
export function parsePattern(text: string): string | undefined {
  const star = text.startsWith('*.')
  const host = parseHost(star ? text.slice(2) : text)
  if (isNameProblem(host)) return undefined
  if (host.form !== 'name') return star ? undefined : patternOf(host)
  if (!host.host.includes('.') || (star && isSuffix(host.host))) return undefined
  return star ? `*.${host.host}` : host.host
}

/** Suffixes under which anyone can register a name: `co.uk`, `com.au`. */
function isSuffix(name: string): boolean {
  return /^(?:ac|co|com|edu|go|gov|gob|ne|net|or|org)\.[a-z]{2}$/.test(name)
}

export interface TypedRule {
  readonly hosts: readonly string[]
  readonly ports: readonly number[]
  readonly methods: readonly string[] | null
  readonly path: string | null
}

/** Parses `HOST[:PORT][/PATH]` from user input. */
export function parseTyped(text: string, methods?: readonly string[]): TypedRule {
  const [, authority, path] = /^([^/]*)(\/.*)?$/s.exec(text) ?? []
  const split = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority ?? '')
  if (/^[a-z]+:\/\//i.test(text) || split === null)
    throw new CraikError('usage', `${quoteShort(text)} is not of the form HOST[:PORT][/PATH]`, {
      hint: hintForUrl(text),
    })
  const host = parseTypedHost(split[1]!)
  const port = split[2] === undefined ? HTTPS_PORT : parsePort(split[2])
  if (port === undefined)
    throw new CraikError('usage', `the port of ${quoteShort(text)} is not a number from 1 to 65535`)
  const isLimited = path !== undefined || methods !== undefined
  if (isLimited && port === HTTPS_PORT)
    throw new CraikError('usage', `cannot check methods and paths of ${host} inside TLS`, {
      hint: `remove them, or add the port of plain HTTP:  craik egress allow ${host}:80${path ?? ''} --sandbox ID`,
    })
  const plain = path === undefined ? null : canonicalPath(path)
  if (plain === undefined)
    throw new CraikError(
      'usage',
      `the path of ${quoteShort(text)} contains "..", an encoded separator or double encoding`,
      { hint: 'write the path plainly, such as /v1/models' },
    )
  return {
    hosts: [host],
    ports: [port],
    methods: methods === undefined ? null : parseMethods(methods),
    path: plain,
  }
}

/** Returns a hint for a URL: a rule can name the host of https, and for http also a path. */
function hintForUrl(text: string): string {
  const [, scheme = '', host = 'registry.example.com', path = ''] =
    /^(https?):\/\/([a-z0-9.-]{1,253})(\/[\w./-]{0,200})?/i.exec(text) ?? []
  const what = scheme.toLowerCase() === 'http' ? `${host}:80${path === '/' ? '' : path}` : host
  return `for example:  craik egress allow ${what} --sandbox ID`
}

/** Parses the host of a rule. Throws `usage` with the reason. */
export function parseTypedHost(text: string): string {
  const star = text.startsWith('*.')
  const host = parseHost(star ? text.slice(2) : text)
  if (isNameProblem(host))
    throw new CraikError('usage', `${quoteShort(text)} cannot be allowed: ${host.problem}`)
  const never = findBlockedReason(host, star)
  if (never !== undefined)
    throw new CraikError('usage', `${quoteShort(text)} cannot be allowed: ${never.reason}`, {
      hint: never.hint,
    })
  const pattern = parsePattern(text)
  if (pattern === undefined)
    throw new CraikError(
      'usage',
      `${quoteShort(text)} cannot be allowed: it would cover domains that anyone can register`,
      {
        hint: 'use a host, or *. and a name of two or more labels: *.example.com',
      },
    )
  return pattern
}

function parseMethods(methods: readonly string[]): readonly string[] {
  return [...new Set(methods.map((name) => method.parse(name.toUpperCase())))].sort()
}

function quoteShort(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}
