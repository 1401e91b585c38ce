/** Checks that a session's policy envelope is the one of its decisions. An envelope never changes. */
import { canonicalJson } from '../../lib/canonical-json.ts'
import { type Envelope, parseEnvelope } from '../../policy/envelope.ts'
import { factsOfEnvelope } from '../../policy/evaluate.ts'
import { plainJson } from '../../policy/policy-decision.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Tables } from '../../store/store.ts'
import { scanReceipts } from './audit-pages.ts'
import type { AuditSealCheck } from './audit-seals.ts'
import { parseReceiptBody } from './receipt-body.ts'

type Body = Receipt['body']

export async function envelopeProblems(
  tables: Tables,
  id: string,
  bodies: readonly Body[],
  sealProblem: AuditSealCheck,
): Promise<readonly string[]> {
  const row = await tables.envelopes.get(id)
  if (row === undefined) return [`${id} is missing`]
  let envelope: Envelope
  try {
    envelope = parseEnvelope(row.id, row.document)
  } catch {
    return [`cannot read ${id}`]
  }
  const facts = serialize(factsOfEnvelope(envelope))
  const problems = bodies.flatMap(({ id: receiptId, links, decision }) => {
    if (links.policy_envelope_id !== id || decision?.policy_digest === undefined) return []
    // Input that redaction removed cannot be compared.
    const then = decision.replayable ? envelopeIn(decision.input) : undefined
    const isSame =
      decision.policy_digest === envelope.policy_digest && (then === undefined || serialize(then) === facts)
    return isSame ? [] : [`${id} differs from the envelope that ${receiptId} recorded`]
  })
  // An envelope from before the session can have no receipt.
  const about = { policyEnvelopeId: id, kind: 'environment_decision' }
  for await (const made of scanReceipts(tables, about)) {
    const body = parseReceiptBody(made?.line ?? '')
    if (made === undefined || body === undefined || !isMakingOf(body, id)) continue
    const problem = await sealProblem(made)
    if (problem !== undefined) problems.push(`the receipt that created ${id}: ${problem}`)
    else if (!isMadeAs(envelope, body)) problems.push(`${id} differs from its receipt ${made.id}`)
  }
  return problems
}

const isMakingOf = ({ capability, operation, target }: Body, id: string): boolean =>
  (capability === 'policy.envelope' || capability === 'policy.fail_open') &&
  operation === 'create' &&
  target === id

function isMadeAs({ policy_digest, profile, fail_open }: Envelope, { digests, metadata }: Body): boolean {
  return (
    digests?.policy === policy_digest && metadata?.profile === profile && metadata.fail_open === fail_open
  )
}

/**
 * Returns the envelope of a decision's input, also from a sandbox's decision, which nests that of policy. Returns
 * `undefined` if none exists.
 */
function envelopeIn(input: unknown): unknown {
  const decided = input as { readonly envelope?: unknown; readonly policy?: unknown } | null | undefined
  return decided?.envelope ?? (decided?.policy as typeof decided)?.envelope ?? undefined
}

const serialize = (value: unknown): string => canonicalJson(plainJson(value))
