/** Changes of rules in the writer thread: each with its grant and its receipts, in one transaction. */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { Clock } from '../../lib/clock.ts'
import { newId } from '../../lib/ids.ts'
import { parseInput } from '../../policy/decision-request.ts'
import { createGrantIn, revokeGrantIn } from '../../policy/grant-procedures.ts'
import type { ReceiptRef, ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { RecordSealer } from '../../receipts/record-seal.ts'
import type { Tables } from '../../store/store.ts'
import { parseHost } from './egress-destination.ts'
import { rulesDocument } from './egress-facts.ts'
import { ANY_SCOPE, type RuleReader, sealOfRule, unknownRule } from './rule-reader.ts'
import { type EgressRule, egressRule, fittingRules, MAX_RULES } from './rules.ts'
import type { AddRuleInput, DenyHostInput, RuleChange } from './tokens.ts'

/** The longest duration of a grant. */
const LONGEST_MS = 366 * 24 * 3600 * 1000

export interface EgressSealer extends ReceiptWriter, RecordSealer {}

/** The tables of one transaction, and the dependencies of a rule change. */
export interface RuleWork {
  readonly tables: Tables
  readonly sealer: EgressSealer
  readonly clock: Clock
  readonly reader: RuleReader
}

/** Adds a rule. It replaces a rule with the same terms, and rules that block only its hosts. */
export async function addRule(work: RuleWork, input: AddRuleInput): Promise<RuleChange> {
  const { operator, approvedBy, sandboxId, preset, hosts, ports, methods, path } = input
  const nowMs = work.clock.nowMs()
  const id = newId<string>('egr', nowMs)
  const expiresAtMs = input.expiresAtMs ?? nowMs + LONGEST_MS
  for (const old of (await ownRules(work, operator, sandboxId)).filter((rule) => isReplaced(rule, input)))
    await drop(work, old, approvedBy)
  const { grant } = await createGrantIn(
    work.tables,
    {
      terms: {
        capability: 'network.egress',
        operations: ['connect', 'request'],
        subject: operator,
        scope: sandboxId === null ? 'any' : { sandbox_id: sandboxId },
        target: { ref: `egress/${id}` },
        max_uses: null,
        approved_by: approvedBy,
      },
      expiresAtMs,
    },
    work.sealer,
    work.clock,
  )
  return insert(work, {
    id,
    effect: 'allow',
    operator,
    sandbox_id: sandboxId,
    preset,
    hosts: [...hosts],
    ports: [...ports],
    methods: methods && [...methods],
    path,
    grant_id: grant.id,
    approved_by: approvedBy,
    created_at_ms: nowMs,
    expires_at_ms: expiresAtMs,
  })
}

export async function removeRule(
  work: RuleWork,
  { id, operator }: { readonly id: string; readonly operator: string },
): Promise<RuleChange> {
  const row = await work.tables.egressRules.get(id)
  if (row === undefined) throw unknownRule(id)
  const rule = work.reader.rule(row)
  if (rule !== undefined) return drop(work, rule, operator)
  throw new CraikError('tampered', `egress rule ${id} was changed outside Craik`, {
    hint: 'check the log:  craik receipts verify   (while a rule is damaged, Craik applies no rule for the same sandboxes)',
  })
}

/**
 * Blocks a host. It removes the rules that allow only this host. If another rule still allows it, a blocking rule
 * overrides that.
 */
export async function denyHost(
  work: RuleWork,
  { operator, approvedBy, sandboxId, host, port }: DenyHostInput,
) {
  const removed: EgressRule[] = []
  for (const rule of await ownRules(work, operator, sandboxId)) {
    const isJustThis = rule.hosts.length === 1 && rule.hosts[0] === host
    const isOnPort = port === undefined || (rule.ports?.length === 1 && rule.ports[0] === port)
    if (!isJustThis || !isOnPort || rule.effect === 'deny') continue
    await drop(work, rule, approvedBy)
    removed.push(rule)
  }
  if (removed.length > 0 && !(await isStillAllowed(work, { operator, sandboxId, host, port })))
    return { removed, added: undefined }
  const { rule: added } = await insert(work, {
    id: newId<string>('egr', work.clock.nowMs()),
    effect: 'deny',
    operator,
    sandbox_id: sandboxId,
    preset: null,
    hosts: [host],
    ports: port === undefined ? null : [port],
    methods: null,
    path: null,
    grant_id: null,
    approved_by: approvedBy,
    created_at_ms: work.clock.nowMs(),
    expires_at_ms: null,
  })
  return { removed, added }
}

/** Removes all rules of a sandbox, also those that were changed outside Craik. */
export async function removeSandboxRules(
  work: RuleWork,
  { sandboxId, operator }: { readonly sandboxId: string; readonly operator: string },
): Promise<number> {
  const rows = await work.tables.egressRules.list({ scope: sandboxId }, 10 * MAX_RULES)
  for (const row of rows) {
    const rule = work.reader.rule(row)
    if (rule !== undefined) await drop(work, rule, operator)
    else await work.tables.egressRules.remove(row.id)
  }
  return rows.length
}

async function ownRules(
  { tables, reader }: RuleWork,
  operator: string,
  sandboxId: string | null,
): Promise<readonly EgressRule[]> {
  const rows = await tables.egressRules.list({ operator, scope: sandboxId ?? ANY_SCOPE }, 2 * MAX_RULES)
  return reader.read(rows).rules
}

function isReplaced(rule: EgressRule, { hosts, ports, methods, path }: AddRuleInput): boolean {
  if (rule.effect === 'deny') return rule.hosts.every((host) => hosts.includes(host))
  const terms = (of: Pick<AddRuleInput, 'hosts' | 'ports' | 'methods' | 'path'>) =>
    canonicalJson([of.hosts, of.ports, of.methods, of.path] as Json)
  return terms({ ...rule, ports: rule.ports ?? [] }) === terms({ hosts, ports, methods, path })
}

/** Checks a single name only. For a pattern with a star, it does not add up which other rules cover parts of it. */
async function isStillAllowed(
  { tables, reader }: RuleWork,
  { operator, sandboxId, host, port }: Omit<DenyHostInput, 'approvedBy'>,
): Promise<boolean> {
  const parsed = parseHost(host)
  if ('problem' in parsed) return false
  const { rules } = await reader.rulesFor(tables, operator, sandboxId ?? undefined)
  const ports = port === undefined ? rules.flatMap((rule) => rule.ports ?? []) : [port]
  return ports.some((one) =>
    (['connect', 'http'] as const).some((protocol) =>
      rules.some((rule) => {
        const anyRequest = { ...rule, methods: null, path: null }
        return fittingRules([anyRequest], { ...parsed, port: one, protocol })[0]?.effect === 'allow'
      }),
    ),
  )
}

async function insert(work: RuleWork, provided: EgressRule): Promise<RuleChange> {
  const { tables, sealer } = work
  const rule = parseInput(egressRule, provided, 'the egress rule')
  const scope = rule.sandbox_id ?? ANY_SCOPE
  if ((await tables.egressRules.list({ operator: rule.operator, scope }, MAX_RULES)).length >= MAX_RULES)
    throw new CraikError(
      'limit_reached',
      `${rule.sandbox_id === null ? 'the list for all sandboxes' : `sandbox ${rule.sandbox_id}`} already has ${MAX_RULES} egress rules`,
      { hint: 'remove a rule that you do not need:  craik egress list   then:  craik egress deny RULE' },
    )
  const document = canonicalJson(rule as unknown as Json)
  const seal = await sealer.sealRecord(tables, sealOfRule(rule.id), document)
  await tables.egressRules.insert({ id: rule.id, document, seal, createdAtMs: rule.created_at_ms })
  return { rule, receipt: await appendChange(work, rule, rule.effect, rule.approved_by) }
}

async function drop(work: RuleWork, rule: EgressRule, operator: string): Promise<RuleChange> {
  const { tables, sealer, clock } = work
  await tables.egressRules.remove(rule.id)
  const grant = rule.grant_id === null ? undefined : await tables.grants.get(rule.grant_id)
  if (grant !== undefined && grant.revokedAtMs === null)
    await revokeGrantIn(tables, { id: grant.id, operator }, sealer, clock)
  return { rule, receipt: await appendChange(work, rule, 'remove', operator) }
}

/** The receipt names the rule's terms by digest, and a document stores them: a receipt contains no patterns. */
async function appendChange(
  { tables, sealer }: RuleWork,
  rule: EgressRule,
  operation: 'allow' | 'deny' | 'remove',
  operator: string,
): Promise<ReceiptRef> {
  const text = rulesDocument([rule])
  const digest = `sha256:${hash('sha256', text)}`
  await tables.documents.put({ digest, mediaType: 'application/json', text })
  return sealer.append(tables, {
    kind: 'egress',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'network.egress',
    operation,
    target: `egress/${rule.id}`,
    links: {
      ...(rule.sandbox_id !== null && { sandbox_id: rule.sandbox_id }),
      ...(rule.grant_id !== null && { grant_id: rule.grant_id }),
    },
    digests: { rule: digest },
    metadata: {
      hosts: rule.hosts.length,
      ...(rule.hosts.length === 1 && !rule.hosts[0]!.startsWith('*') && { host: rule.hosts[0]! }),
      ports: rule.ports,
      preset: rule.preset,
      everywhere: rule.sandbox_id === null,
    },
  })
}
