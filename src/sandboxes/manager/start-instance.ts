/** Starts the place of a sandbox and waits for its sidecar; ends whatever of one there is. */
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { changeSandbox } from '../lifecycle/tokens.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import { closeFolder, removeFolder } from './folders.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import type { SandboxRegistry, Startable } from './sandbox-registry.ts'

/** From the start of the place to its sidecar's greeting; a loaded machine takes seconds. */
const READY_MS = 20_000

/** As far as it came: what has to be undone when it fails. */
export interface Started {
  held?: ActiveSandbox
  place?: SandboxInstance
}

/** Its folder is there. What was made is in `made`, also when it fails. */
export async function startInstance(
  options: ManagerOptions,
  holder: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
  until: AbortSignal,
): Promise<RecordedInstance> {
  until.throwIfAborted()
  // Neither the sidecar of an earlier place nor when something last happened there says anything about this one.
  const held = await holder.take({ ...record, place: null, active_at_ms: null })
  made.held = held
  const { id } = record
  const { epoch } = held.session
  // Whoever comes after a crash finds it by what is recorded.
  return bringUpInstance(options, holder, record, { held, made }, until, (place) =>
    options.store.write(changeSandbox, { id, place, epoch }),
  )
}

/**
 * The same for what is held already. `note` is told how it is found again as soon as there is something to find. Only
 * so many are started at once: each has a time to be ready in, and more of them would only take it from each other.
 */
export function bringUpInstance(
  options: ManagerOptions,
  holder: SandboxRegistry,
  record: Startable & Pick<SandboxRecord, 'backend'>,
  parts: { readonly held: ActiveSandbox; readonly made: Started },
  until: AbortSignal,
  note: (place: RecordedInstance) => Promise<unknown>,
): Promise<RecordedInstance> {
  return holder.starts.pass(until, () => startNow(options, holder, record, parts, until, note))
}

async function startNow(
  { home, backends }: ManagerOptions,
  holder: SandboxRegistry,
  record: Startable & Pick<SandboxRecord, 'backend'>,
  { held, made }: { readonly held: ActiveSandbox; readonly made: Started },
  until: AbortSignal,
  note: (place: RecordedInstance) => Promise<unknown>,
): Promise<RecordedInstance> {
  const spec = holder.specOf(record)
  const place = await backendCalled(backends, record.backend).create(spec)
  made.place = place
  requireSameLine(place, spec)
  holder.attach(held, place)
  const recorded = note(recordedPlace(place))
  const ended = place.ended.then((why) => {
    throw new CraikError('boundary_failed', `the sandbox ended before it was ready: ${why}`, {
      hint: 'check this machine:  craik doctor',
    })
  })
  const [boundary] = await Promise.all([
    Promise.race([held.session.boundary(until, READY_MS), ended]),
    recorded,
  ])
  await closeFolder(home.sandboxes, record.id)
  const { handle, ...reached } = recordedPlace(place)
  return { ...reached, handle: { ...handle, sidecar: boundary.hello.instance } }
}

/** Nothing runs afterwards; the disk is as it was left. */
export async function undoInstance(
  holder: SandboxRegistry,
  spec: SandboxSpec,
  backend: SandboxBackend,
  { held, place }: Started,
): Promise<void> {
  if (held !== undefined) await holder.letGo(held)
  await place?.destroy()
  await backend.sweep(spec, place?.handle)
}

/** The same for whatever runs of it, held by this process or left by an earlier one. Throws while that cannot be told. */
export async function clearInstance(
  { backends }: ManagerOptions,
  holder: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const spec = holder.specOf(record)
  const backend = backendCalled(backends, record.backend)
  const held = holder.get(record.id)
  if (held !== undefined) await holder.letGo(held)
  const handle = holder.handleOf(record)
  const place = held?.session.place ?? (handle && (await backend.recover(handle, spec)))
  await place?.destroy()
  await backend.sweep(spec, handle)
}

/** Of one whose place is gone: its disk, wherever that is, and its folder. */
export async function removeDisk(
  { backends, home }: ManagerOptions,
  holder: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  await backendCalled(backends, record.backend).discard?.(holder.specOf(record))
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

function recordedPlace({ handle, isolation, hostUid, limits }: SandboxInstance): RecordedInstance {
  return { handle, isolation, hostUid, enforced: { ...limits } }
}
