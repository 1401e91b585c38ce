/** A sandbox as it is shown: from its record, and from what this process holds of it. */
import type { LimitSpec } from '../backend.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { SandboxView } from '../manager-types.ts'
import type { Held } from './held.ts'

export function viewOf(record: SandboxRecord, held: Held | undefined): SandboxView {
  const { spec, place } = record
  return {
    id: record.id,
    name: record.name,
    backend: record.backend,
    state: record.state,
    isolation: place?.isolation ?? spec.isolation,
    hostUid: place?.hostUid ?? null,
    workspace: spec.workspace,
    limits: spec.limits as LimitSpec,
    enforced: place?.enforced ?? null,
    operator: record.operator,
    policyEnvelopeId: record.policy_envelope_id,
    createdAtMs: record.created_at_ms,
    connected: held?.session.connected ?? false,
    runningJobs: held?.book.running ?? 0,
    notice: record.notice ?? held?.session.refusal?.message ?? null,
  }
}
