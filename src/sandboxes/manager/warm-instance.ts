/** One place that waits for a sandbox: started like any other, and ended without a trace. */
import { type JobId, newId, type SandboxId } from '../../lib/ids.ts'
import { type BackendName, type ContainerSpec, SUPPORTED_ISOLATION } from '../backend.ts'
import type { Shape } from '../pool/shape.ts'
import { beginWarm, dropWarm, leaveWarm, readyWarm } from '../pool/tokens.ts'
import type { WarmRecord } from '../pool/warm-record.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import { makeSandboxFolder, removeFolder } from './folders.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import { bareSpec } from './remove.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { bringUpInstance, type Started } from './start-instance.ts'

const EXERCISE_MS = 20_000

export interface WarmInstance {
  readonly shape: Shape
  readonly record: WarmRecord
  readonly held: ActiveSandbox
}

/** It is connected and on record as ready. What was made is in `made`, also when it fails, for `endWarm` to undo. */
export async function startWarm(
  options: ManagerOptions,
  holder: SandboxRegistry,
  id: SandboxId,
  shape: Shape,
  container: ContainerSpec | undefined,
  made: Started,
  until: AbortSignal,
): Promise<WarmInstance> {
  const { store, log, home, admission } = options
  const { backend, isolation, limits, hostUser, late } = shape
  const record = await store.write(beginWarm, {
    id,
    backend,
    isolation,
    limits,
    hostUser,
    late,
    owner: log.owner,
    ...(container && { container }),
    ...(admission && { admission: await admission() }),
  })
  await makeSandboxFolder(home.sandboxes, id)
  const held = await holder.prepare(record)
  made.held = held
  // Until it is ready it is found by its id, which is on record.
  const place = await bringUpInstance(options, holder, record, { held, made }, until, async () => {})
  await exercise(held, options.clock.nowMs(), until)
  return { shape, record: await store.write(readyWarm, { id, place, owner: log.owner }), held }
}

/** The first command takes a sidecar twice as long as the next, so the first is nobody's, and does nothing. */
async function exercise({ session }: ActiveSandbox, nowMs: number, until: AbortSignal): Promise<void> {
  const patience = AbortSignal.any([until, AbortSignal.timeout(EXERCISE_MS)])
  const boundary = await session.boundary(patience)
  const job = newId<JobId>('job', nowMs)
  const { output } = await boundary.jobs.start(job, { kind: 'exec', argv: ['true'] }, patience)
  for await (const _ of output);
  await boundary.jobs.forget(job, patience)
}

/** Whether it is over with it; false while another process that lives has it. Throws when it could not be ended. */
export async function endWarm(
  options: ManagerOptions,
  holder: SandboxRegistry,
  id: SandboxId,
  { held, place }: Started,
): Promise<boolean> {
  const { store, log, home, backends } = options
  const answer = await store.write(leaveWarm, { id, owner: log.owner })
  if (held !== undefined) await holder.letGo(held)
  if (answer.effect !== 'left') return answer.effect === 'gone'
  const { record } = answer
  await place?.destroy()
  if (record === undefined) await sweepByName(options, id)
  else {
    const backend = backendCalled(backends, record.backend)
    const spec = holder.specOf(record)
    await backend.sweep(spec, holder.handleOf(record))
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
