/** Creates a sandbox: policy decides first, and any failure undoes the whole creation. */
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { listMountedFolders, recordMountedFolder } from '../../store/mounted-folders.ts'
import { requireHarnesses } from '../harness-package.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { refuseExplicitFields } from '../lifecycle/explicit-fields.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { beginCreate, changeSandbox, endCreate } from '../lifecycle/tokens.ts'
import type { CreateRequest, ManagerCaller } from '../manager-types.ts'
import { shapeOf } from '../pool/instance-shape.ts'
import { adoptInstance } from './adopt-instance.ts'
import { firstDisk, planContainerSpec, requestFrom } from './create-from-snapshot.ts'
import { parseCreate } from './create-request.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { showFolders } from './mount-folders.ts'
import { observedMeasure } from './operation.ts'
import { sendLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { makeSandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { removeDisk, type Started, startInstance, undoInstance } from './start-instance.ts'
import { reasonOf } from './transition.ts'
import type { WarmPool } from './warm-pool.ts'

export async function createSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
  pool: WarmPool,
  caller: ManagerCaller,
  requested: CreateRequest,
): Promise<SandboxRecord> {
  const { store, log, clock, home } = options
  const { forkOf, ...wish } = requested
  const { request, snapshot } = await requestFrom(options, wish)
  // The workspace is checked before the decision, which is about the folder with its links resolved. The caller has the
  // home's token, so they are the user that Craik runs as and can read the folder themselves.
  const around = { craikHome: home.root, environment: options.environment ?? process.env }
  const parsed = parseCreate(request, {
    ...around,
    uid: process.geteuid?.() ?? -1,
    mounted: await listMountedFolders(home, async () => store),
  })
  if (parsed.workspace.mode === 'in-place') recordMountedFolder(home, parsed.workspace.folder)
  const backend = requireBackend(options.backends, parsed.backend)
  const beganAtMs = clock.nowMs()
  const { name, policyEnvelopeId, container: wanted, harnesses: named, ends, ...rest } = parsed
  const isOwnImage = backend.plan !== undefined && wanted?.image === undefined && snapshot === undefined
  const harnesses = harnessIds(options, named, isOwnImage)
  const input = {
    id: newId<SandboxId>('sbx', clock.nowMs()),
    ...(name !== undefined && { name }),
    ...(policyEnvelopeId !== undefined && { policyEnvelopeId }),
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    ...rest,
    ...(forkOf !== undefined && { forkOf }),
    ...(snapshot && { snapshot: snapshot.id }),
    ends: { idle_ms: ends.idleMs, lifetime_ms: ends.lifetimeMs, keep_ms: ends.keepMs },
    ...(options.admission && { admission: await options.admission() }),
    owner: log.owner,
  }
  // A request that its explicit fields rule out causes no search and no call to the engine.
  const isRefused = refuseExplicitFields(parsed.backend, parsed.stated) !== undefined
  // A warm instance has no harness mounted, and its image contains none.
  const isPlain = snapshot === undefined && named.length === 0
  const shape = isPlain && !isRefused ? shapeOf(parsed) : undefined
  const adopted = shape && (await adoptInstance(options, registry, pool, shape, caller, input, beganAtMs))
  if (adopted?.record.pending === null) return adopted.record
  const begin = async () => {
    const asking = { ...wanted, ...(harnesses.length > 0 && { harnesses }) }
    const container = isRefused ? undefined : await planContainerSpec(backend, asking, snapshot)
    if (container === undefined && !isRefused) await requireHarnesses(around, harnesses)
    const whole = { ...input, ...(container === undefined ? { harnesses } : { container }) }
    const write = () => store.write(beginCreate, whole)
    const answer = await (parsed.volumes.length > 0 ? registry.volumes.run(caller.signal, write) : write())
    if (answer.effect === 'denied') throw deniedOperationError(answer)
    if (answer.effect === 'allowed') return answer.record
    throw new CraikError('internal', 'a sandbox instance was adopted that was not offered')
  }
  const record = adopted?.record ?? (await begin())
  const spec = registry.specOf(record)
  const made: Started = adopted ? { ...adopted.made } : {}
  let leftOut: string | undefined
  const start = async () => {
    await makeSandboxFolder(home.sandboxes, record.id)
    leftOut = snapshot && (await firstDisk(options, caller, snapshot, spec, record.backend))
    return startInstance(options, registry, record, made, caller.signal)
  }
  try {
    caller.signal.throwIfAborted()
    const warm = adopted && (await showFolders(options, registry, record, made))
    const instance = warm ?? (await start())
    const ended = await store.write(endCreate, {
      id: record.id,
      status: 'passed',
      place: instance,
      warm: warm !== undefined,
      measures: [observedMeasure('duration_ms', clock.nowMs() - beganAtMs)],
    })
    made.active!.session.events.add('created')
    registry.watch(made.active!, made.instance!)
    if (shape !== undefined) pool.note(shape, record.spec.container)
    await sendLogins(options, made.active!, record, caller)
    if (leftOut !== undefined)
      return await recordNotice(options, ended.record!, `created from a snapshot, ${leftOut}`)
    return ended.record!
  } catch (error) {
    try {
      await undoInstance(registry, spec, backend, made)
      await removeDisk(options, registry, record)
      await store.write(endCreate, { id: record.id, status: 'failed' })
    } catch (left) {
      // The record stays `creating`, and the cleanup is retried as soon as possible.
      options.logger('error', `could not clean up a sandbox that was not created: ${reasonOf(left)}`, {
        sandbox: spec.id,
      })
      retries.later(spec.id, left)
    }
    throw error
  }
}

/** Another image keeps its own contents. Each of Craik's own images gets the tools. */
function harnessIds(
  { harnesses }: ManagerOptions,
  names: readonly string[],
  isOwnImage: boolean,
): readonly string[] {
  if (names.length === 0) return isOwnImage ? (harnesses?.ids([]) ?? []) : []
  if (harnesses === undefined) throw new CraikError('unavailable', 'harnesses are not available')
  return harnesses.ids(names)
}

/** The sandbox exists even if the notice cannot be recorded. */
function recordNotice(
  { store, logger }: ManagerOptions,
  record: SandboxRecord,
  notice: string,
): Promise<SandboxRecord> {
  return store.write(changeSandbox, { id: record.id, notice }).catch((error) => {
    logger('error', `${notice}; could not record this notice: ${reasonOf(error)}`, { sandbox: record.id })
    return record
  })
}
