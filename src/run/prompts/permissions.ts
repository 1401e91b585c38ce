/** Whether an agent may use a tool: policy decides each time, by the grant that came with the prompt or by one for this once. */
import { hash } from 'node:crypto'
import { type PendingTool, TOOL_KINDS, type ToolKind } from '../../harnesses/acp/events.ts'
import { decide } from '../../policy/decide.ts'
import { createGrant, revokeGrant } from '../../policy/grants.ts'
import type { ReceiptLog } from '../../receipts/log.ts'
import type { Store } from '../../store/store.ts'

export interface PermissionDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly operator: string
  readonly runId: string
  readonly sandboxId: string
  readonly harness: string
  /** The sandbox's own. */
  readonly policyEnvelopeId: string
  /** What was typed. */
  readonly command: string
}

export const PERMISSION_MODES = ['allow', 'ask', 'read-only', 'deny'] as const
export type PermissionMode = (typeof PERMISSION_MODES)[number]

/** What changes nothing inside. */
const READING: readonly ToolKind[] = ['read', 'search', 'think']

/** What whoever types the prompt gives leave for at once. */
export function permittedKinds(mode: PermissionMode): readonly ToolKind[] {
  if (mode === 'allow') return TOOL_KINDS
  return mode === 'deny' ? [] : READING
}

/** A grant for this prompt alone; undefined when nothing is given leave for. */
export async function grantTools(
  place: PermissionDeps,
  operations: readonly ToolKind[],
  expiresAtMs: number,
  once = false,
): Promise<string | undefined> {
  if (operations.length === 0) return undefined
  const { grant } = await createGrant(
    place.store,
    {
      capability: 'agent.act',
      subject: place.operator,
      scope: { run_id: place.runId },
      target: { ref: `harness/${place.harness}` },
      operations: [...operations],
      max_uses: once ? 1 : null,
      reason: once ? 'answered: yes' : `typed: ${place.command}`,
      approved_by: place.operator,
    },
    { expiresAtMs },
  )
  return grant.id
}

export async function revokeTools(
  { store, operator }: PermissionDeps,
  grantId: string | undefined,
): Promise<void> {
  if (grantId !== undefined) await revokeGrant(store, grantId, operator)
}

export interface ToolDecision {
  readonly allowed: boolean
  readonly rule: string
  readonly receiptId: string
  /** What the rule cannot tell. */
  readonly why?: string
}

/** The receipt has the kind of tool and a digest of what was asked, never the words. */
export async function decideTool(
  { store, log, operator, runId, sandboxId, harness, policyEnvelopeId }: PermissionDeps,
  { kind, asks }: Pick<PendingTool, 'kind' | 'asks'>,
  grantId: string | undefined,
): Promise<ToolDecision> {
  const decision = await decide(
    store,
    log,
    {
      operator,
      capability: 'agent.act',
      operation: kind,
      target: `harness/${harness}`,
      scope: { run_id: runId, sandbox_id: sandboxId },
      policy_envelope_id: policyEnvelopeId,
      ...(grantId !== undefined && { grant_id: grantId }),
    },
    {
      kind: 'environment_decision',
      links: { run_id: runId, sandbox_id: sandboxId },
      digests: { tool: `sha256:${hash('sha256', asks)}` },
    },
  )
  if (decision.effect === 'deny')
    return { allowed: false, rule: decision.rule, receiptId: decision.receipt.id }
  // What the agent does then happens inside, where nobody sees it: that it was let is all that is known.
  await decision.open.end({ status: 'passed' })
  return { allowed: true, rule: decision.rule, receiptId: decision.open.id }
}
