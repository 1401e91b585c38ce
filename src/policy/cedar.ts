/**
 * The Cedar engine: Craik parses a policy text once and evaluates it often. Every answer names the rule that decided.
 */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { DetailedError } from '@cedar-policy/cedar-wasm/nodejs'
import { CraikError } from '../errors.ts'
import { REFERENCE } from '../lib/ids.ts'
import { packageFile } from '../lib/package-files.ts'
import { cacheAnswers, readsTime } from './cached-answers.ts'
import { findExcess } from './policy-shape.ts'

/** Far above any real policy. The parser never gets a longer text. */
export const MAX_POLICY_BYTES = 1024 * 1024

export interface CedarRequest {
  readonly operator: string
  readonly capability: string
  readonly target: string
  readonly context: Readonly<Record<string, CedarValue>>
}

type CedarValue = string | number | boolean | { readonly [key: string]: CedarValue }

export interface CedarVerdict {
  readonly effect: 'allow' | 'deny'
  /** The `@id`s of the deciding policies, in the order of the text. Empty when no permit applied. */
  readonly rules: readonly string[]
  /** True when a policy could not be evaluated, so that the verdict is not reliable. */
  readonly failed: boolean
}

export interface CedarPolicy {
  readonly rules: readonly CedarRule[]
  decide(request: CedarRequest): CedarVerdict
}

interface CedarRule {
  readonly id: string
  readonly effect: 'permit' | 'forbid'
  readonly text: string
  /** True when the answer can change with the time alone. */
  readonly readsTime: boolean
}

export interface PolicyFinding {
  /** Counted from 1, in characters, not in bytes. */
  readonly line: number
  readonly column: number
  readonly message: string
  readonly severity: 'error' | 'warning'
}

export function policyDigest(text: string): string {
  return `sha256:${hash('sha256', text)}`
}

/** Parsed policies by their text. The engine keeps them for the life of the thread, and so does this map. */
const parsed = new Map<string, CedarPolicy>()

/** Parses a policy text. Throws `invalid_config` when the text does not parse or a policy has no usable `@id`. */
export async function loadPolicy(text: string): Promise<CedarPolicy> {
  const known = parsed.get(text)
  if (known !== undefined) return known
  const policy = await parsePolicy(text)
  parsed.set(text, policy)
  return policy
}

async function parsePolicy(text: string): Promise<CedarPolicy> {
  const engine = await loadEngine()
  const { rules, findings } = readRules(engine, text)
  const [problem] = findings
  if (problem !== undefined) {
    throw new CraikError('invalid_config', `policy:${problem.line}:${problem.column}: ${problem.message}`)
  }
  const digest = policyDigest(text)
  const staticPolicies = Object.fromEntries(rules.map(({ id, text }) => [id, text]))
  const answer = engine.preparsePolicySet(digest, { staticPolicies })
  if (answer.type === 'failure') {
    throw new CraikError(
      'invalid_config',
      `cannot parse the policy: ${answer.errors[0]?.message ?? 'unknown error'}`,
    )
  }
  const position = new Map(rules.map(({ id }, at) => [id, at]))
  const decide = ({ operator, capability, target, context }: CedarRequest): CedarVerdict => {
    const answer = engine.statefulIsAuthorized({
      principal: { type: 'Operator', id: operator },
      action: { type: 'Action', id: capability },
      resource: { type: 'Target', id: target },
      context,
      entities: [],
      preparsedPolicySetId: digest,
    })
    if (answer.type === 'failure') return { effect: 'deny', rules: [], failed: true }
    const { decision, diagnostics } = answer.response
    const decided = diagnostics.reason.toSorted((a, b) => position.get(a)! - position.get(b)!)
    const failed = diagnostics.errors.length > 0
    return { effect: failed ? 'deny' : decision, rules: decided, failed }
  }
  return { rules, decide: rules.some((rule) => rule.readsTime) ? decide : cacheAnswers(decide) }
}

/** Returns the errors of a policy text: in its syntax, then in its rule names, then against Craik's schema. */
export async function checkPolicyText(text: string): Promise<readonly PolicyFinding[]> {
  const engine = await loadEngine()
  const schema = await readFile(packageFile('src/policy/profiles/craik.cedarschema'), 'utf8')
  const { rules, findings } = readRules(engine, text)
  if (findings.length > 0) return findings
  const answer = engine.validate({ schema, policies: { staticPolicies: text } })
  if (answer.type === 'failure') return answer.errors.map((error) => toFinding(text, error, 'error'))
  const toFindings =
    (severity: PolicyFinding['severity']) => (found: { policyId: string; error: DetailedError }) =>
      toFinding(text, found.error, severity, rules[Number(found.policyId.replace('policy', ''))]?.id)
  return withoutRepeats([
    ...answer.validationErrors.map(toFindings('error')),
    ...answer.validationWarnings.map(toFindings('warning')),
  ])
}

type Engine = typeof import('@cedar-policy/cedar-wasm/nodejs')

/** Loads the engine on first use, because loading adds about 20 ms to the start of a command. */
export function loadEngine(): Promise<Engine> {
  return import('@cedar-policy/cedar-wasm/nodejs')
}

/** Returns the policies in the order of the text. A receipt names the one that decided, so each needs its own name. */
function readRules(engine: Engine, text: string): { rules: CedarRule[]; findings: PolicyFinding[] } {
  const excess = findExcess(text)
  if (excess !== undefined) {
    return {
      rules: [],
      findings: [{ ...locationOf(text.slice(0, excess.at)), message: excess.message, severity: 'error' }],
    }
  }
  const answer = engine.policySetTextToParts(text)
  if (answer.type === 'failure') {
    return { rules: [], findings: answer.errors.map((error) => toFinding(text, error, 'error')) }
  }
  const findings: PolicyFinding[] = []
  const complain = (at: number, message: string) =>
    findings.push({ ...locationOf(text.slice(0, Math.max(at, 0))), message, severity: 'error' })
  for (const template of answer.policy_templates) {
    complain(text.indexOf(template), 'templates (?principal, ?resource) are not supported; write a policy')
  }
  if (findings.length > 0) return { rules: [], findings }

  const rules: CedarRule[] = []
  const seen = new Set<string>()
  let from = 0
  for (const part of inTextOrder(answer.policies)) {
    const at = text.indexOf(part, from)
    from = at + part.length
    const json = engine.policyToJson(part)
    if (json.type === 'failure')
      throw new CraikError('internal', 'cannot parse a policy that was parsed before')
    const id = json.json.annotations?.id ?? ''
    if (id === '') complain(at, 'a policy needs a name for receipts: add @id("custom.some_name") before it')
    else if (!REFERENCE.test(id))
      complain(at, `@id(${JSON.stringify(id)}) is not a valid name: use letters, digits and . _ -`)
    else if (RESERVED.test(id))
      complain(at, `@id("${id}") is reserved for Craik's own rules; choose another name`)
    else if (seen.has(id)) complain(at, `@id("${id}") is used twice; names must be unique`)
    seen.add(id)
    rules.push({ id, effect: json.json.effect, text: part, readsTime: readsTime(json.json) })
  }
  return { rules, findings }
}

/** Names of the rules that Craik applies around a policy. */
const RESERVED = /^(default_deny$|control\.|envelope\.|policy\.|capability\.)/

/** The engine numbers policies in the order of the text but returns them sorted by name: policy10 before policy2. */
function inTextOrder(policies: readonly string[]): readonly string[] {
  const names = policies.map((_, i) => `policy${i}`).sort()
  const ordered: string[] = []
  names.forEach((name, i) => {
    ordered[Number(name.slice('policy'.length))] = policies[i]!
  })
  return ordered
}

function toFinding(
  text: string,
  error: DetailedError,
  severity: PolicyFinding['severity'],
  rule?: string,
): PolicyFinding {
  const [location] = error.sourceLocations ?? []
  // The engine counts UTF-8 bytes, and JavaScript strings count UTF-16 units.
  const before = location === undefined ? '' : Buffer.from(text).subarray(0, location.start).toString()
  const problem = error.message
    .replace(/^failed to parse policies from string: /, '')
    .replace(/^for policy `[^`]*`, /, rule === undefined ? '' : `${rule}: `)
  const more = [error.help, location?.label].filter(
    (part) => part !== null && part !== undefined && part !== '',
  )
  return { ...locationOf(before), message: [problem, ...more].join('; '), severity }
}

function locationOf(before: string): { readonly line: number; readonly column: number } {
  const lines = before.split('\n')
  return { line: lines.length, column: [...lines.at(-1)!].length + 1 }
}

/** The engine reports a mistake once per action that it applies to. Readers need it once. */
function withoutRepeats(findings: readonly PolicyFinding[]): readonly PolicyFinding[] {
  const seen = new Set<string>()
  return findings
    .toSorted((a, b) => a.line - b.line || a.column - b.column)
    .map((finding) => ({
      ...finding,
      message: finding.message.replace(/ (in context )?for Action::"[^"]*"/, ''),
    }))
    .filter(({ line, column, message }) => {
      const key = `${line}:${column}:${message}`
      return !seen.has(key) && seen.add(key)
    })
}
