/** Starts a sandbox again on the disk that it was stopped with, or lets a paused one go on. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { requireSandboxFolder } from './folders.ts'
import { observed } from './operation.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import { unpauseInstance } from './pause.ts'
import { bringLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, type Started, startInstance, undoInstance } from './start-instance.ts'
import { beginTransitionOf, end, reasonOf } from './transition.ts'

export async function resumeSandbox(
  options: ManagerOptions,
  holder: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  id: SandboxId,
): Promise<SandboxRecord> {
  const answer = await beginTransitionOf(options, caller, id, {
    verb: 'resume',
    ...(options.admission && { admission: await options.admission() }),
  })
  if (answer.effect === 'already') return answer.record
  if (answer.verb === 'unpause') return unpauseInstance(options, holder, answer.record)
  return startAgain(options, holder, retries, caller, answer.record)
}

/** With the spec that was recorded when it was created: its image, its limits and its environment are the same. */
async function startAgain(
  options: ManagerOptions,
  holder: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  const { id } = record
  const beganAtMs = options.clock.nowMs()
  const made: Started = {}
  try {
    await requireSandboxFolder(options.home.sandboxes, id)
    // Of one that was lost something may still run, and nothing of it may meet the new one.
    await clearInstance(options, holder, record)
    const place = await startInstance(options, holder, record, made, caller.signal)
    const resumed = await end(options, holder, {
      id,
      status: 'passed',
      place,
      measures: [observed('duration_ms', options.clock.nowMs() - beganAtMs)],
    })
    made.held!.session.events.add('resumed')
    holder.watch(made.held!, made.place!)
    await bringLogins(options, made.held!, record, caller)
    return resumed
  } catch (error) {
    try {
      await undoInstance(holder, holder.specOf(record), backendCalled(options.backends, record.backend), made)
      await end(options, holder, {
        id,
        status: 'failed',
        notice: `it could not be resumed: ${reasonOf(error)}`,
      })
    } catch (left) {
      // The record stays as `resuming`: what is left is undone as soon as that works.
      options.logger('error', `could not undo a failed resume: ${reasonOf(left)}`, { sandbox: id })
      retries.later(id, left)
    }
    throw error
  }
}
