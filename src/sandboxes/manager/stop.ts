/** Stops a sandbox: signals its jobs to end, then removes its instance. Its disk, policy and grants stay. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller, StopRequest } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance } from './start-instance.ts'
import { beginTransitionOf, endTransitionOf, reasonOf, transitionError } from './transition.ts'

/** The time that jobs have to end after SIGTERM, unless the request sets one. */
export const GRACE_MS = 5_000
const ASK_DEADLINE_MS = 1_000
const LOOK_PAUSE_MS = 50

export async function stopSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  caller: ManagerCaller,
  id: SandboxId,
  { graceMs = GRACE_MS, reason }: StopRequest & { readonly reason?: 'idle' | 'lifetime' },
): Promise<SandboxRecord> {
  const answer = await beginTransitionOf(options, caller, id, {
    verb: 'stop',
    metadata: { grace_ms: graceMs, ...(reason && { reason }) },
    ...(reason === 'idle' && { unlessBusy: true }),
  })
  // From here on, the stop does not end when the caller aborts.
  return answer.effect === 'already'
    ? answer.record
    : finishStop(options, registry, answer.record, graceMs, reason)
}

async function finishStop(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  graceMs: number,
  reason?: 'idle' | 'lifetime',
): Promise<SandboxRecord> {
  const beganAtMs = options.clock.nowMs()
  const { id } = record
  try {
    await windDown(options, registry, id, graceMs)
    await clearInstance(options, registry, record)
  } catch (error) {
    const notice = `it could not be stopped: ${reasonOf(error)}`
    await endTransitionOf(options, registry, { id, status: 'failed', notice })
    throw transitionError(error, `sandbox ${record.name} could not be stopped`)
  }
  return endTransitionOf(options, registry, {
    id,
    status: 'passed',
    measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs)],
    ...(reason && { notice: NOTICES[reason] }),
  })
}

const NOTICES = {
  idle: 'stopped because its idle timeout passed without activity',
  lifetime: 'stopped because it reached its maximum lifetime',
} as const

/**
 * Signals the jobs to end. Those that still run when the time is over end with the instance, and their receipts say
 * `stopped` like the others.
 */
export async function windDown(
  options: ManagerOptions,
  registry: SandboxRegistry,
  id: SandboxId,
  graceMs: number,
): Promise<void> {
  const active = registry.get(id)
  if (active === undefined) return
  active.ending = true
  active.book.markStopping()
  active.session.events.add('stopping')
  if (active.paused) {
    await active.session.instance?.unpause?.()
    active.paused = false
  }
  await askJobsToEnd(active, graceMs).catch((error) =>
    options.logger('warn', `could not signal its jobs to end: ${reasonOf(error)}`, { sandbox: id }),
  )
  await active.session.close()
  await active.book.endAll('stopped', 'failed')
  active.session.events.add('stopped')
}

async function askJobsToEnd({ book, session }: ActiveSandbox, graceMs: number): Promise<void> {
  if (book.size === 0 || graceMs === 0 || !session.isConnected) return
  const endsMs = performance.now() + graceMs
  const until = AbortSignal.any([session.closing, AbortSignal.timeout(graceMs + ASK_DEADLINE_MS)])
  const boundary = await session.boundary(until, ASK_DEADLINE_MS)
  const asking = book
    .listStarted()
    .map(({ id }) => boundary.jobs.control(id, { signal: 'SIGTERM' }, until).catch(() => {}))
  await Promise.race([Promise.all(asking), sleep(ASK_DEADLINE_MS)])
  while (book.listStarted().length > 0 && performance.now() < endsMs) {
    await book.endFinished(boundary, until)
    await sleep(LOOK_PAUSE_MS)
  }
}
