/** Starts a sandbox again on the disk that it was stopped with, or lets a paused one go on. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { backendCalled, type ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { unpauseInstance } from './pause.ts'
import { sendLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { requireSandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, type Started, startInstance, undoInstance } from './start-instance.ts'
import { beginTransitionOf, end, reasonOf } from './transition.ts'

export async function resumeSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  id: SandboxId,
): Promise<SandboxRecord> {
  const answer = await beginTransitionOf(options, caller, id, {
    verb: 'resume',
    ...(options.admission && { admission: await options.admission() }),
  })
  if (answer.effect === 'already') return answer.record
  if (answer.verb === 'unpause') return unpauseInstance(options, registry, answer.record)
  return startAgain(options, registry, retries, caller, answer.record)
}

/** With the spec that was recorded when it was created: its image, its limits and its environment are the same. */
async function startAgain(
  options: ManagerOptions,
  registry: SandboxRegistry,
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
    await clearInstance(options, registry, record)
    const instance = await startInstance(options, registry, record, made, caller.signal)
    const resumed = await end(options, registry, {
      id,
      status: 'passed',
      place: instance,
      measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs)],
    })
    made.held!.session.events.add('resumed')
    registry.watch(made.held!, made.instance!)
    await sendLogins(options, made.held!, record, caller)
    return resumed
  } catch (error) {
    try {
      await undoInstance(
        registry,
        registry.specOf(record),
        backendCalled(options.backends, record.backend),
        made,
      )
      await end(options, registry, {
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
