/** A rule of egress: which hosts, on which ports, and for plain HTTP with which methods and below which path. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { reference } from '../../policy/request.ts'
import { type Host, isNameProblem, parseHost, parsePort } from './names.ts'
import { neverAllowed } from './never-reached.ts'
import { canonicalPath, isWithin } from './paths.ts'

export const HTTPS_PORT = 443
export const MAX_RULES = 200
const MAX_HOSTS = 64
const MAX_PORTS = 8

/** What is asked of the rules. */
export interface EgressRequest {
  readonly host: string
  readonly form: Host['form']
  readonly port: number
  readonly protocol: 'connect' | 'http'
  readonly method?: string | undefined
  /** Undefined: none, or one that could be read in two ways. */
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

/** What is compared; a digest of these is what a decision was made from. */
export const ruleTerms = z.strictObject({
  id: reference,
  effect: z.enum(['allow', 'deny']),
  /** A name, an address, or `*.` and a name: what is below it, at any depth. */
  hosts: z.array(host).min(1).max(MAX_HOSTS),
  /** Null, of a rule that denies: all. */
  ports: z.array(port).min(1).max(MAX_PORTS).nullable(),
  /** Null: all, and tunnels. */
  methods: z.array(method).min(1).max(10).nullable(),
  path: path.nullable(),
})

export const egressRule = ruleTerms
  .extend({
    operator: reference,
    /** Null: all sandboxes of the operator. */
    sandbox_id: reference.nullable(),
    preset: reference.nullable(),
    /** What makes it hold; none for one that denies. */
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

/** Those that fit, the most exact first; or the one that denies. */
export function fittingRules<Rule extends RuleTerms>(
  rules: readonly Rule[],
  asked: EgressRequest,
): readonly Rule[] {
  const fitting = rules.filter((rule) => fits(rule, asked))
  const denying = fitting.filter(({ effect }) => effect === 'deny')
  return denying.length > 0 ? denying : fitting.sort((a, b) => exactness(b, asked) - exactness(a, asked))
}

function fits({ effect, hosts, ports, methods, path }: RuleTerms, asked: EgressRequest): boolean {
  if (!hosts.some((pattern) => fitsHost(pattern, asked))) return false
  if (ports?.includes(asked.port) === false) return false
  if (effect === 'deny') return true
  // Nothing is seen of what is inside a tunnel.
  if (asked.protocol === 'connect') return methods === null && path === null
  if (methods?.includes(asked.method ?? '') === false) return false
  return path === null || (asked.path !== undefined && isWithin(path, asked.path))
}

/** Why a rule that allows, and is about this host, does not fit; undefined: it fits, or is about another. */
export function missedBy(
  rule: RuleTerms,
  asked: EgressRequest,
): 'port' | 'tunnel' | 'method' | 'path' | undefined {
  const { effect, hosts, ports, methods, path } = rule
  if (effect === 'deny' || !hosts.some((pattern) => fitsHost(pattern, asked))) return undefined
  if (asked.protocol === 'connect' && (methods !== null || path !== null)) return 'tunnel'
  if (ports?.includes(asked.port) === false) return 'port'
  if (fits(rule, asked)) return undefined
  return methods?.includes(asked.method ?? '') === false ? 'method' : 'path'
}

/** A pattern with a star fits names only, and never the name that follows the star. */
function fitsHost(pattern: string, { host, form }: EgressRequest): boolean {
  if (!pattern.startsWith('*.')) return pattern === patternOf({ host, form })
  return form === 'name' && host.length > pattern.length - 1 && host.endsWith(pattern.slice(1))
}

function exactness({ hosts, path }: RuleTerms, asked: EgressRequest): number {
  return (hosts.includes(patternOf(asked)) ? 10_000 : 0) + (path?.length ?? 0)
}

function patternOf({ host, form }: Host): string {
  return form === 'ipv6' ? `[${host}]` : host
}

/** A host as a rule may name it, or undefined. */
export function parsePattern(text: string): string | undefined {
  const star = text.startsWith('*.')
  const host = parseHost(star ? text.slice(2) : text)
  if (isNameProblem(host)) return undefined
  if (host.form !== 'name') return star ? undefined : patternOf(host)
  if (!host.host.includes('.') || (star && isSuffix(host.host))) return undefined
  return star ? `*.${host.host}` : host.host
}

/** Under which anybody may have a name: `co.uk`, `com.au`. */
function isSuffix(name: string): boolean {
  return /^(?:ac|co|com|edu|go|gov|gob|ne|net|or|org)\.[a-z]{2}$/.test(name)
}

export interface TypedRule {
  readonly hosts: readonly string[]
  readonly ports: readonly number[]
  readonly methods: readonly string[] | null
  readonly path: string | null
}

/** `HOST[:PORT][/PATH]`, as a person types it. */
export function parseTyped(text: string, methods?: readonly string[]): TypedRule {
  const [, authority, path] = /^([^/]*)(\/.*)?$/s.exec(text) ?? []
  const split = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority ?? '')
  if (/^[a-z]+:\/\//i.test(text) || split === null)
    throw new CraikError('usage', `${shown(text)} is not of the form HOST[:PORT][/PATH]`, {
      hint: hintForUrl(text),
    })
  const host = parseTypedHost(split[1]!)
  const port = split[2] === undefined ? HTTPS_PORT : parsePort(split[2])
  if (port === undefined)
    throw new CraikError('usage', `the port of ${shown(text)} is not a number from 1 to 65535`)
  const isLimited = path !== undefined || methods !== undefined
  if (isLimited && port === HTTPS_PORT)
    throw new CraikError('usage', `cannot check methods and paths of ${host} inside TLS`, {
      hint: `remove them, or add the port of plain HTTP:  craik egress allow ${host}:80${path ?? ''} --sandbox ID`,
    })
  const plain = path === undefined ? null : canonicalPath(path)
  if (plain === undefined)
    throw new CraikError(
      'usage',
      `the path of ${shown(text)} contains "..", an encoded separator or double encoding`,
    )
  return {
    hosts: [host],
    ports: [port],
    methods: methods === undefined ? null : parseMethods(methods),
    path: plain,
  }
}

/** A URL was meant: of https the host is what can be allowed, of http also a path. */
function hintForUrl(text: string): string {
  const [, scheme = '', host = 'registry.example.com', path = ''] =
    /^(https?):\/\/([a-z0-9.-]{1,253})(\/[\w./-]{0,200})?/i.exec(text) ?? []
  const what = scheme.toLowerCase() === 'http' ? `${host}:80${path === '/' ? '' : path}` : host
  return `for example:  craik egress allow ${what} --sandbox ID`
}

/** Of a rule: refused with the reason. */
export function parseTypedHost(text: string): string {
  const star = text.startsWith('*.')
  const host = parseHost(star ? text.slice(2) : text)
  if (isNameProblem(host)) throw new CraikError('usage', `${shown(text)} cannot be allowed: ${host.problem}`)
  const never = neverAllowed(host, star)
  if (never !== undefined)
    throw new CraikError('usage', `${shown(text)} cannot be allowed: ${never.reason}`, { hint: never.hint })
  const pattern = parsePattern(text)
  if (pattern === undefined)
    throw new CraikError(
      'usage',
      `${shown(text)} cannot be allowed: it would cover domains that anyone can register`,
      {
        hint: 'use a host, or *. and a name of two or more labels: *.example.com',
      },
    )
  return pattern
}

function parseMethods(methods: readonly string[]): readonly string[] {
  return [...new Set(methods.map((name) => method.parse(name.toUpperCase())))].sort()
}

function shown(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}
