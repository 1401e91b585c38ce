/** Starts a stopped sandbox again with its disk, or unpauses a paused one. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { unpauseInstance } from './pause.ts'
import { sendLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { requireSandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, type Started, startInstance, undoInstance } from './start-instance.ts'
import { beginTransitionOf, endTransitionOf, reasonOf } from './transition.ts'

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

/** Starts the sandbox with the recorded spec of its creation, so its image, limits and environment are the same. */
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
    // Processes of a lost sandbox may still run, and must not meet the new ones.
    await clearInstance(options, registry, record)
    const instance = await startInstance(options, registry, record, made, caller.signal)
    const resumed = await endTransitionOf(options, registry, {
      id,
      status: 'passed',
      place: instance,
      measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs)],
    })
    made.active!.session.events.add('resumed')
    registry.watch(made.active!, made.instance!)
    await sendLogins(options, made.active!, record, caller)
    return resumed
  } catch (error) {
    try {
      await undoInstance(
        registry,
        registry.specOf(record),
        requireBackend(options.backends, record.backend),
        made,
      )
      await endTransitionOf(options, registry, {
        id,
        status: 'failed',
        notice: `it could not be resumed: ${reasonOf(error)}`,
      })
    } catch (left) {
      // The record stays `resuming`, and the undo is retried as soon as possible.
      options.logger('error', `could not undo a failed resume: ${reasonOf(left)}`, { sandbox: id })
      retries.later(id, left)
    }
    throw error
  }
}
