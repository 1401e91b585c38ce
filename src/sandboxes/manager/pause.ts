/** Pauses a sandbox and unpauses it. All of its processes freeze, and nothing is lost. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { ManagerOptions } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { beginTransitionOf, endTransitionOf, transitionError } from './transition.ts'

export async function pauseSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  caller: ManagerCaller,
  id: SandboxId,
): Promise<SandboxRecord> {
  const answer = await beginTransitionOf(options, caller, id, { verb: 'pause' })
  if (answer.effect === 'already') return answer.record
  const { record } = answer
  try {
    const active = requireActive(registry, record)
    const { instance } = active.session
    if (instance?.pause === undefined) throw cannotPause(record)
    // Set before the freeze: a frozen sidecar does not answer, and must not get requests.
    active.paused = true
    try {
      await instance.pause()
    } catch (error) {
      active.paused = false
      throw error
    }
    active.session.events.add('paused')
  } catch (error) {
    await endTransitionOf(options, registry, { id, status: 'failed' })
    throw transitionError(error, `sandbox ${record.name} could not be paused`)
  }
  return endTransitionOf(options, registry, { id, status: 'passed' })
}

export async function unpauseInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  const { id } = record
  try {
    const active = requireActive(registry, record)
    await active.session.instance?.unpause?.()
    active.paused = false
    active.activity.activeAtMs = options.clock.nowMs()
    active.session.events.add('resumed')
  } catch (error) {
    await endTransitionOf(options, registry, { id, status: 'failed' })
    throw transitionError(error, `sandbox ${record.name} could not be resumed`)
  }
  return endTransitionOf(options, registry, { id, status: 'passed' })
}

function requireActive(registry: SandboxRegistry, { id, name }: SandboxRecord): ActiveSandbox {
  const active = registry.get(id)
  if (active !== undefined && !active.session.closing.aborted) return active
  throw new CraikError('unavailable', `sandbox ${name} does not run under this supervisor`, {
    hint: `show the sandbox:  craik sandbox show ${name}`,
  })
}

function cannotPause({ name, backend, spec }: SandboxRecord): CraikError {
  const why =
    spec.isolation === 'none'
      ? 'its processes run directly on the host'
      : backend === 'process'
        ? 'this needs a cgroup with a freezer, which Craik cannot create here'
        : 'its engine does not support it'
  return new CraikError('unavailable', `sandbox ${name} cannot be paused: ${why}`, {
    hint: `stop the sandbox, which keeps its disk:  craik sandbox stop ${name}`,
  })
}
