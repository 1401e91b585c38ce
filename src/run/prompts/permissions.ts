/**
 * Decides whether an agent can use a tool. Policy decides each time, by the prompt's grant or by a grant for one use.
 */
import { hash } from 'node:crypto'
import { type PendingTool, TOOL_KINDS, type ToolKind } from '../../harnesses/acp/agent-events.ts'
import { decide } from '../../policy/decide.ts'
import { createGrant, revokeGrant } from '../../policy/grants.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { Store } from '../../store/store.ts'

export interface PermissionDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly operator: string
  readonly runId: string
  readonly sandboxId: string
  readonly harness: string
  /** The sandbox's own envelope. */
  readonly policyEnvelopeId: string
  /** The typed command. */
  readonly command: string
}

export const PERMISSION_MODES = ['allow', 'ask', 'read-only', 'deny'] as const
export type PermissionMode = (typeof PERMISSION_MODES)[number]

/** Tool kinds that change nothing in the sandbox. */
const READING: readonly ToolKind[] = ['read', 'search', 'think']

/** Returns the tool kinds that a prompt permits in advance. */
export function listPermittedKinds(mode: PermissionMode): readonly ToolKind[] {
  if (mode === 'allow') return TOOL_KINDS
  return mode === 'deny' ? [] : READING
}

/** Creates a grant for this prompt alone. Returns `undefined` when no kinds are permitted. */
export async function grantTools(
  deps: PermissionDeps,
  operations: readonly ToolKind[],
  expiresAtMs: number,
  once = false,
): Promise<string | undefined> {
  if (operations.length === 0) return undefined
  const { grant } = await createGrant(
    deps.store,
    {
      capability: 'agent.act',
      subject: deps.operator,
      scope: { run_id: deps.runId },
      target: { ref: `harness/${deps.harness}` },
      operations: [...operations],
      max_uses: once ? 1 : null,
      reason: once ? 'answered: yes' : `typed: ${deps.command}`,
      approved_by: deps.operator,
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
  /** A reason that the rule does not give. */
  readonly why?: string
}

/** Decides about a tool. The receipt contains its kind and a digest of the request, never the words. */
export async function decideTool(
  { store, log, operator, runId, sandboxId, harness, policyEnvelopeId }: PermissionDeps,
  { kind, requestText: asks }: Pick<PendingTool, 'kind' | 'requestText'>,
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
  // The agent's action happens in the sandbox, where Craik cannot see it. Only the permission is known.
  await decision.open.end({ status: 'passed' })
  return { allowed: true, rule: decision.rule, receiptId: decision.open.id }
}
