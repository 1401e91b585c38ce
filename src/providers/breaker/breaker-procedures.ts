/** Breakers in the writer thread: grants probes and applies reports, each in one transaction. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { type Owner, ownerState } from '../../lib/owner.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { ProbeRow } from '../../store/breaker-table.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import type { FailureKind } from '../adapters/adapter.ts'
import { CALL_MS_MAX } from '../adapters/limits.ts'
import { afterReport, CLOSED, phaseOf } from './breaker-state.ts'
import { admissionWithoutProbe, breakerState } from './breakers.ts'
import {
  type BreakerAdmission,
  type BreakerAdmitInput,
  type BreakerReportInput,
  type BreakerReset,
  type BreakerResetInput,
  breakerAdmit,
  breakerReport,
  breakerReset,
} from './tokens.ts'

export function breakerProcedures(
  receipts: ReceiptWriter,
  clock: Clock,
  stateOfOwner = ownerState,
): Procedures {
  return {
    [breakerReset.name]: (tables: Tables, input: BreakerResetInput) => reset(tables, input, receipts),
    [breakerAdmit.name]: (tables: Tables, input: BreakerAdmitInput) =>
      admit(tables, input, clock.nowMs(), stateOfOwner),
    [breakerReport.name]: (tables: Tables, input: BreakerReportInput) => report(tables, input, clock.nowMs()),
  }
}

async function admit(
  tables: Tables,
  { providerId, owner, caller, probeId }: BreakerAdmitInput,
  nowMs: number,
  stateOfOwner: (owner: Owner) => 'alive' | 'dead' | 'unknown',
): Promise<BreakerAdmission> {
  const row = await tables.breakers.get(providerId)
  const plain = admissionWithoutProbe(row, nowMs)
  if (row === undefined || plain !== undefined) return plain ?? { admitted: true, probeId: undefined }
  const openUntilMs = row.openUntilMs!
  const underWay = row.probes.filter(
    (probe) => !isLate(probe, openUntilMs) && !isOver(probe, nowMs, stateOfOwner),
  )
  // A caller's probe blocks only that caller, so that no caller can block the others.
  if (underWay.some((probe) => probe.caller === caller)) {
    return {
      admitted: false,
      phase: 'probing',
      lastFailure: row.lastFailure as FailureKind,
      nowMs,
      openUntilMs,
      retryAtMs: nowMs + PROBE_RETRY_MS,
    }
  }
  const probes = [...underWay, { id: probeId, caller, owner, sinceMs: nowMs }]
  await tables.breakers.put({ ...row, probes, updatedAtMs: nowMs })
  return { admitted: true, probeId }
}

/** When a caller's other probe has probably ended. */
const PROBE_RETRY_MS = 1000

/** Returns whether another probe has failed since this one began. */
function isLate({ sinceMs }: ProbeRow, openUntilMs: number | null): boolean {
  return openUntilMs !== null && sinceMs < openUntilMs
}

/** A dead owner's probe ends at once. A probe with an unknown owner ends when it is older than any call. */
function isOver(
  { owner, sinceMs }: ProbeRow,
  nowMs: number,
  stateOfOwner: (owner: Owner) => 'alive' | 'dead' | 'unknown',
): boolean {
  return nowMs >= sinceMs + CALL_MS_MAX || stateOfOwner(owner) === 'dead'
}

async function report(
  tables: Tables,
  { providerId, probeId, report: news, cooldownMs }: BreakerReportInput,
  nowMs: number,
): Promise<void> {
  const row = await tables.breakers.get(providerId)
  const probe = probeId === undefined ? undefined : row?.probes.find(({ id }) => id === probeId)
  const isProbe = probe !== undefined
  // The report of a probe that was replaced is ignored.
  if (probeId !== undefined && !isProbe) return
  const before = breakerState(row)
  const isLateProbe = isProbe && isLate(probe, before.openUntilMs)
  const after = afterReport(before, news, { isProbe, isLateProbe, nowMs, cooldownMs })
  if (phaseOf(after, nowMs) === 'closed' && after.failures === CLOSED.failures && after.openings === 0) {
    if (row !== undefined) await tables.breakers.remove(providerId)
    return
  }
  if (after === before && !isProbe) return
  await tables.breakers.put({
    providerId,
    ...after,
    probes: row?.probes.filter(({ id }) => id !== probeId) ?? [],
    updatedAtMs: nowMs,
  })
}

/** Reports of pending probes will be ignored, because their breaker is gone. */
async function reset(
  tables: Tables,
  { providerId, operator }: BreakerResetInput,
  receipts: ReceiptWriter,
): Promise<BreakerReset> {
  const row = await tables.breakers.get(providerId)
  if (row === undefined || !(await tables.breakers.remove(providerId)))
    throw new CraikError('conflict', `${providerId} is not in cooldown and has no failures to reset`, {
      hint: 'list providers in cooldown:  craik provider failover show',
    })
  const { failures, openings, openUntilMs, lastFailure } = row
  const receipt = await receipts.append(tables, {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'provider.write',
    operation: 'reset_breaker',
    target: providerId,
    links: { provider_id: providerId },
    metadata: {
      failures,
      openings,
      ...(openUntilMs !== null && { open_until_ms: openUntilMs }),
      ...(lastFailure !== null && { last_failure: lastFailure }),
    },
  })
  return { lastFailure, openUntilMs, receipt }
}
