/** Shows a sandbox, from its record and from what this process has of it. */
import type { ContainerSpec, LimitSpec } from '../backend.ts'
import { agentsOf, harnessName, harnessVersion } from '../harness-package.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { OPERABLE } from '../lifecycle/transitions.ts'
import type { SandboxEnds, SandboxView } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'

/** `waitingFor` is the reason why the sandbox could not be taken over yet. */
export function viewOf(
  record: SandboxRecord,
  active: ActiveSandbox | undefined,
  waitingFor: string | undefined,
): SandboxView {
  const { spec, place: instance } = record
  const ends = endsOf(record)
  const runningJobs = active?.book.running ?? 0
  const activeAtMs = active === undefined ? record.active_at_ms : active.activity.activeAtMs
  return {
    id: record.id,
    name: record.name,
    backend: record.backend,
    state: record.state,
    isolation: instance?.isolation ?? spec.isolation,
    hostUid: instance?.hostUid ?? null,
    workspace: spec.workspace,
    mounts: spec.mounts.map((mount) => ({ ...mount, mode: 'read_only' })),
    volumes: spec.volumes,
    container: spec.container && containerView(spec.container, instance?.handle.image),
    harnesses: agentsOf([...spec.harnesses, ...(spec.container?.harnesses ?? [])]).map((id) => ({
      name: harnessName(id),
      version: harnessVersion(id),
    })),
    credentials: spec.credentials,
    accounts: active?.accounts ?? null,
    limits: spec.limits as LimitSpec,
    enforced: instance?.enforced ?? null,
    operator: record.operator,
    policyEnvelopeId: record.policy_envelope_id,
    createdAtMs: record.created_at_ms,
    ends,
    activeAtMs,
    startedAtMs: record.started_at_ms,
    stoppedAtMs: record.stopped_at_ms,
    stopsAtMs:
      record.state === OPERABLE
        ? stopsAt(ends, record.started_at_ms, runningJobs > 0 ? null : activeAtMs)
        : null,
    connected: active?.session.isConnected ?? false,
    runningJobs,
    notice: noticeOf(waitingFor ?? record.notice ?? active?.session.refusal?.message, active?.leftOut),
  }
}

/** Joins the parts, because a missing login is reported in addition to any other notice. */
function noticeOf(...parts: readonly (string | null | undefined)[]): string | null {
  const message = parts.filter((part) => typeof part === 'string')
  return message.length === 0 ? null : message.join('; ')
}

export function endsOf({ ends }: Pick<SandboxRecord, 'ends'>): SandboxEnds {
  return { idleMs: ends.idle_ms, lifetimeMs: ends.lifetime_ms, keepMs: ends.keep_ms }
}

/**
 * Returns when the sandbox will be stopped. `activeAtMs` is null while it is active, because it cannot become idle
 * then.
 */
function stopsAt(
  { idleMs, lifetimeMs }: SandboxEnds,
  startedAtMs: number | null,
  activeAtMs: number | null,
): number | null {
  const times = [
    ...(idleMs === null || activeAtMs === null ? [] : [activeAtMs + idleMs]),
    ...(lifetimeMs === null || startedAtMs === null ? [] : [startedAtMs + lifetimeMs]),
  ]
  return times.length === 0 ? null : Math.min(...times)
}

/**
 * Leaves out the engine, which means nothing to the user. While the sandbox runs, this shows the image that runs: an
 * image that the engine lost may have been rebuilt.
 */
function containerView(
  { engine: _, harnesses: _shownApart, ...shown }: ContainerSpec,
  running: string | number | undefined,
): Omit<ContainerSpec, 'engine' | 'harnesses'> {
  return typeof running === 'string' ? { ...shown, image: running } : shown
}
