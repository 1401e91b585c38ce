/** Pauses a sandbox and lets it go on: everything in it stands still, and nothing is lost. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { ManagerOptions } from './options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { beginTransitionOf, end, transitionError } from './transition.ts'

export async function pauseSandbox(
  options: ManagerOptions,
  holder: SandboxRegistry,
  caller: ManagerCaller,
  id: SandboxId,
): Promise<SandboxRecord> {
  const answer = await beginTransitionOf(options, caller, id, { verb: 'pause' })
  if (answer.effect === 'already') return answer.record
  const { record } = answer
  try {
    const held = requireHeld(holder, record)
    const { place } = held.session
    if (place?.pause === undefined) throw cannotPause(record)
    // Before it stands still: from then on its sidecar does not answer, and is not asked.
    held.paused = true
    try {
      await place.pause()
    } catch (error) {
      held.paused = false
      throw error
    }
    held.session.events.add('paused')
  } catch (error) {
    await end(options, holder, { id, status: 'failed' })
    throw transitionError(error, `sandbox ${record.name} could not be paused`)
  }
  return end(options, holder, { id, status: 'passed' })
}

export async function unpauseInstance(
  options: ManagerOptions,
  holder: SandboxRegistry,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  const { id } = record
  try {
    const held = requireHeld(holder, record)
    await held.session.place?.unpause?.()
    held.paused = false
    held.activity.activeAtMs = options.clock.nowMs()
    held.session.events.add('resumed')
  } catch (error) {
    await end(options, holder, { id, status: 'failed' })
    throw transitionError(error, `sandbox ${record.name} could not be resumed`)
  }
  return end(options, holder, { id, status: 'passed' })
}

function requireHeld(holder: SandboxRegistry, { id, name }: SandboxRecord): ActiveSandbox {
  const held = holder.get(id)
  if (held !== undefined && !held.session.closing.aborted) return held
  throw new CraikError('unavailable', `sandbox ${name} is not active in this supervisor`)
}

function cannotPause({ name, backend, spec }: SandboxRecord): CraikError {
  const why =
    spec.isolation === 'none'
      ? 'its processes run directly on the host'
      : backend === 'process'
        ? 'this needs a cgroup with a freezer, which Craik cannot create here'
        : 'its engine does not support it'
  return new CraikError('unavailable', `sandbox ${name} cannot be paused: ${why}`, {
    hint: `stop it, which keeps its disk:  craik sandbox stop ${name}`,
  })
}
