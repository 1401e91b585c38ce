/** Starts the instance of a sandbox and waits for its sidecar. It also ends instances. */
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { changeSandbox } from '../lifecycle/tokens.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { closeFolder, removeFolder } from './sandbox-folder.ts'
import type { SandboxRegistry, Startable } from './sandbox-registry.ts'

/** The time from the start of the instance to its sidecar's greeting. On a loaded host, that takes seconds. */
const READY_MS = 20_000

/** The parts that a start has created so far. A failed start must undo them. */
export interface Started {
  active?: ActiveSandbox
  instance?: SandboxInstance
}

/** Starts the instance in the sandbox's existing folder. `made` contains what was created, also on failure. */
export async function startInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
  until: AbortSignal,
): Promise<RecordedInstance> {
  until.throwIfAborted()
  // The sidecar and the last activity of an earlier instance say nothing about this one.
  const active = await registry.take({ ...record, place: null, active_at_ms: null })
  made.active = active
  const { id } = record
  const { epoch } = active.session
  // After a crash, the next process finds the instance by what is recorded.
  return launchInstance(options, registry, record, { held: active, made }, until, (instance) =>
    options.store.write(changeSandbox, { id, place: instance, epoch }),
  )
}

/**
 * Does the same for a sandbox that is already active. It calls `note` as soon as the instance exists, so that the
 * caller records how to find it again. Only a limited number starts at once: each has a deadline, and more starts would
 * slow each other down.
 */
export function launchInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: Startable & Pick<SandboxRecord, 'backend'>,
  parts: { readonly held: ActiveSandbox; readonly made: Started },
  until: AbortSignal,
  note: (instance: RecordedInstance) => Promise<unknown>,
): Promise<RecordedInstance> {
  return registry.starts.run(until, () => startNow(options, registry, record, parts, until, note))
}

async function startNow(
  { home, backends }: ManagerOptions,
  registry: SandboxRegistry,
  record: Startable & Pick<SandboxRecord, 'backend'>,
  { held: active, made }: { readonly held: ActiveSandbox; readonly made: Started },
  until: AbortSignal,
  note: (instance: RecordedInstance) => Promise<unknown>,
): Promise<RecordedInstance> {
  const spec = registry.specOf(record)
  const instance = await requireBackend(backends, record.backend).create(spec)
  made.instance = instance
  requireSameLine(instance, spec)
  registry.attach(active, instance)
  const recorded = note(toRecordedInstance(instance))
  const ended = instance.ended.then((why) => {
    throw new CraikError('boundary_failed', `the sandbox ended before it was ready: ${why}`, {
      hint: 'check this machine:  craik doctor',
    })
  })
  const [boundary] = await Promise.all([
    Promise.race([active.session.boundary(until, READY_MS), ended]),
    recorded,
  ])
  await closeFolder(home.sandboxes, record.id)
  const { handle, ...reached } = toRecordedInstance(instance)
  return { ...reached, handle: { ...handle, sidecar: boundary.hello.instance } }
}

/** Ends what a start created. Nothing runs afterwards, and the disk stays as it is. */
export async function undoInstance(
  registry: SandboxRegistry,
  spec: SandboxSpec,
  backend: SandboxBackend,
  { active, instance }: Started,
): Promise<void> {
  if (active !== undefined) await registry.release(active)
  await instance?.destroy()
  await backend.sweep(spec, instance?.handle)
}

/**
 * Ends whatever runs of the sandbox, managed by this process or left by an earlier one. Throws while the backend cannot
 * determine that.
 */
export async function clearInstance(
  { backends }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const spec = registry.specOf(record)
  const backend = requireBackend(backends, record.backend)
  const active = registry.get(record.id)
  if (active !== undefined) await registry.release(active)
  const handle = registry.handleOf(record)
  const instance = active?.session.instance ?? (handle && (await backend.recover(handle, spec)))
  await instance?.destroy()
  await backend.sweep(spec, handle)
}

/** Removes the disk of a sandbox whose instance is gone, wherever it is, and the sandbox's folder. */
export async function removeDisk(
  { backends, home }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  await requireBackend(backends, record.backend).discard?.(registry.specOf(record))
  await removeFolder(home.sandboxes, record.id)
}

function requireSameLine({ line }: SandboxInstance, spec: SandboxSpec): void {
  const isSame =
    spec.container?.line === 'relay'
      ? line.kind === 'dial'
      : line.kind === 'socket' && line.folder === join(spec.folder, 'socket')
  if (!isSame)
    throw new CraikError('internal', 'the transport of the sandbox instance differs from the recorded one')
}

function toRecordedInstance({ handle, isolation, hostUid, limits }: SandboxInstance): RecordedInstance {
  return { handle, isolation, hostUid, enforced: { ...limits } }
}
