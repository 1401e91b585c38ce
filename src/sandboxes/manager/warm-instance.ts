/** One warm instance. It starts like any other, and ends without a trace. */
import { type JobId, newId, type SandboxId } from '../../lib/ids.ts'
import { type BackendName, type ContainerSpec, SUPPORTED_ISOLATION } from '../backend.ts'
import type { Shape } from '../pool/instance-shape.ts'
import { beginWarm, dropWarm, leaveWarm, readyWarm } from '../pool/tokens.ts'
import type { WarmRecord } from '../pool/warm-record.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { bareSpec } from './remove.ts'
import { makeSandboxFolder, removeFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { launchInstance, type Started } from './start-instance.ts'

const EXERCISE_MS = 20_000

export interface WarmInstance {
  readonly shape: Shape
  readonly record: WarmRecord
  readonly held: ActiveSandbox
}

/**
 * Returns an instance that is connected and recorded as ready. `made` contains what was created, also on failure, so
 * that `endWarm` can undo it.
 */
export async function startWarm(
  options: ManagerOptions,
  registry: SandboxRegistry,
  id: SandboxId,
  shape: Shape,
  container: ContainerSpec | undefined,
  made: Started,
  until: AbortSignal,
): Promise<WarmInstance> {
  const { store, log, home, admission } = options
  const { backend, isolation, limits, hostUser, late: hotMounts } = shape
  const record = await store.write(beginWarm, {
    id,
    backend,
    isolation,
    limits,
    hostUser,
    late: hotMounts,
    owner: log.owner,
    ...(container && { container }),
    ...(admission && { admission: await admission() }),
  })
  await makeSandboxFolder(home.sandboxes, id)
  const active = await registry.prepare(record)
  made.active = active
  // Until the instance is ready, it is found by its recorded id.
  const instance = await launchInstance(
    options,
    registry,
    record,
    { held: active, made },
    until,
    async () => {},
  )
  await exercise(active, options.clock.nowMs(), until)
  return {
    shape,
    record: await store.write(readyWarm, { id, place: instance, owner: log.owner }),
    held: active,
  }
}

/**
 * Runs a command that does nothing and belongs to no sandbox, because a sidecar takes twice as long for its first
 * command as for the next.
 */
async function exercise({ session }: ActiveSandbox, nowMs: number, until: AbortSignal): Promise<void> {
  const deadline = AbortSignal.any([until, AbortSignal.timeout(EXERCISE_MS)])
  const boundary = await session.boundary(deadline)
  const job = newId<JobId>('job', nowMs)
  const { output } = await boundary.jobs.start(job, { kind: 'exec', argv: ['true'] }, deadline)
  for await (const _ of output);
  await boundary.jobs.forget(job, deadline)
}

/**
 * Returns whether the instance is gone, and false while another living process has it. Throws when it could not be
 * ended.
 */
export async function endWarm(
  options: ManagerOptions,
  registry: SandboxRegistry,
  id: SandboxId,
  { active, instance }: Started,
): Promise<boolean> {
  const { store, log, home, backends } = options
  const answer = await store.write(leaveWarm, { id, owner: log.owner })
  if (active !== undefined) await registry.release(active)
  if (answer.effect !== 'left') return answer.effect === 'gone'
  const { record } = answer
  await instance?.destroy()
  if (record === undefined) await sweepByName(options, id)
  else {
    const backend = requireBackend(backends, record.backend)
    const spec = registry.specOf(record)
    await backend.sweep(spec, registry.handleOf(record))
    await backend.discard?.(spec)
  }
  await removeFolder(home.sandboxes, id)
  await store.write(dropWarm, { id })
  return true
}

async function sweepByName({ backends, home }: ManagerOptions, id: SandboxId): Promise<void> {
  for (const [name, isolations] of Object.entries(SUPPORTED_ISOLATION)) {
    const backend = backends[name as BackendName]
    if (backend?.pooled !== true) continue
    for (const isolation of isolations) {
      const spec = bareSpec(home.sandboxes, id, isolation)
      await backend.sweep(spec, undefined)
      await backend.discard?.(spec)
    }
  }
}
