/** Starts the place of a sandbox and waits for its sidecar; ends whatever of one there is. */
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { changeSandbox } from '../lifecycle/tokens.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import { backendCalled, type ManagerOptions } from './manager-options.ts'
import { closeFolder, removeFolder } from './sandbox-folder.ts'
import type { SandboxRegistry, Startable } from './sandbox-registry.ts'

/** From the start of the place to its sidecar's greeting; a loaded machine takes seconds. */
const READY_MS = 20_000

/** As far as it came: what has to be undone when it fails. */
export interface Started {
  held?: ActiveSandbox
  instance?: SandboxInstance
}

/** Its folder is there. What was made is in `made`, also when it fails. */
export async function startInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
  until: AbortSignal,
): Promise<RecordedInstance> {
  until.throwIfAborted()
  // Neither the sidecar of an earlier place nor when something last happened there says anything about this one.
  const active = await registry.take({ ...record, place: null, active_at_ms: null })
  made.held = active
  const { id } = record
  const { epoch } = active.session
  // Whoever comes after a crash finds it by what is recorded.
  return launchInstance(options, registry, record, { held: active, made }, until, (instance) =>
    options.store.write(changeSandbox, { id, place: instance, epoch }),
  )
}

/**
 * The same for what is held already. `note` is told how it is found again as soon as there is something to find. Only
 * so many are started at once: each has a time to be ready in, and more of them would only take it from each other.
 */
export function launchInstance(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: Startable & Pick<SandboxRecord, 'backend'>,
  parts: { readonly held: ActiveSandbox; readonly made: Started },
  until: AbortSignal,
  note: (instance: RecordedInstance) => Promise<unknown>,
): Promise<RecordedInstance> {
  return registry.starts.pass(until, () => startNow(options, registry, record, parts, until, note))
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
  const instance = await backendCalled(backends, record.backend).create(spec)
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

/** Nothing runs afterwards; the disk is as it was left. */
export async function undoInstance(
  registry: SandboxRegistry,
  spec: SandboxSpec,
  backend: SandboxBackend,
  { held: active, instance }: Started,
): Promise<void> {
  if (active !== undefined) await registry.letGo(active)
  await instance?.destroy()
  await backend.sweep(spec, instance?.handle)
}

/** The same for whatever runs of it, held by this process or left by an earlier one. Throws while that cannot be told. */
export async function clearInstance(
  { backends }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const spec = registry.specOf(record)
  const backend = backendCalled(backends, record.backend)
  const active = registry.get(record.id)
  if (active !== undefined) await registry.letGo(active)
  const handle = registry.handleOf(record)
  const instance = active?.session.instance ?? (handle && (await backend.recover(handle, spec)))
  await instance?.destroy()
  await backend.sweep(spec, handle)
}

/** Of one whose place is gone: its disk, wherever that is, and its folder. */
export async function removeDisk(
  { backends, home }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  await backendCalled(backends, record.backend).discard?.(registry.specOf(record))
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
