/** Makes a sandbox: decided first, undone whole when anything fails on the way. */
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { mountedFolders, recordMountedFolder } from '../../store/mounted-folders.ts'
import { requireHarnesses } from '../harness-package.ts'
import { deniedOperation } from '../lifecycle/denied.ts'
import { refuseExplicitFields } from '../lifecycle/explicit-fields.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { beginCreate, changeSandbox, endCreate } from '../lifecycle/tokens.ts'
import type { CreateRequest, ManagerCaller } from '../manager-types.ts'
import { shapeOf } from '../pool/shape.ts'
import { adoptInstance } from './adopt-instance.ts'
import { firstDisk, planned, requestFrom } from './create-from.ts'
import { parseCreate } from './create-request.ts'
import { makeSandboxFolder } from './folders.ts'
import { observed } from './operation.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import { bringLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { showFolders } from './show-folders.ts'
import { removeDisk, type Started, startInstance, undoInstance } from './start-instance.ts'
import { reasonOf } from './transition.ts'
import type { WarmPool } from './warm-pool.ts'

export async function createSandbox(
  options: ManagerOptions,
  holder: SandboxRegistry,
  retries: RecoveryRetries,
  pool: WarmPool,
  caller: ManagerCaller,
  asked: CreateRequest,
): Promise<SandboxRecord> {
  const { store, log, clock, home } = options
  const { forkOf, ...wish } = asked
  const { request, snapshot } = await requestFrom(options, wish)
  // Looks at the workspace before anything is decided: the decision is about the folder as it is, links resolved. Who
  // gets this far has the home's token, so they are the user that Craik runs as, and can look at it themselves.
  const around = { craikHome: home.root, environment: options.environment ?? process.env }
  const parsed = parseCreate(request, {
    ...around,
    uid: process.geteuid?.() ?? -1,
    mounted: await mountedFolders(home, async () => store),
  })
  if (parsed.workspace.mode === 'in-place') recordMountedFolder(home, parsed.workspace.folder)
  const backend = backendCalled(options.backends, parsed.backend)
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
  // Nothing is looked for, and no engine asked, for what is denied for what it says.
  const isRefused = refuseExplicitFields(parsed.backend, parsed.stated) !== undefined
  // A place that waits has been shown no harness, and its image holds none.
  const isPlain = snapshot === undefined && named.length === 0
  const shape = isPlain && !isRefused ? shapeOf(parsed) : undefined
  const adopted = shape && (await adoptInstance(options, holder, pool, shape, caller, input, beganAtMs))
  if (adopted?.record.pending === null) return adopted.record
  const begin = async () => {
    const asking = { ...wanted, ...(harnesses.length > 0 && { harnesses }) }
    const container = isRefused ? undefined : await planned(backend, asking, snapshot)
    if (container === undefined && !isRefused) await requireHarnesses(around, harnesses)
    const whole = { ...input, ...(container === undefined ? { harnesses } : { container }) }
    const write = () => store.write(beginCreate, whole)
    const answer = await (parsed.volumes.length > 0 ? holder.volumes.pass(caller.signal, write) : write())
    if (answer.effect === 'denied') throw deniedOperation(answer)
    if (answer.effect === 'allowed') return answer.record
    throw new CraikError('internal', 'a sandbox instance was adopted that was not offered')
  }
  const record = adopted?.record ?? (await begin())
  const spec = holder.specOf(record)
  const made: Started = adopted ? { ...adopted.made } : {}
  let leftOut: string | undefined
  const start = async () => {
    await makeSandboxFolder(home.sandboxes, record.id)
    leftOut = snapshot && (await firstDisk(options, caller, snapshot, spec, record.backend))
    return startInstance(options, holder, record, made, caller.signal)
  }
  try {
    caller.signal.throwIfAborted()
    const warm = adopted && (await showFolders(options, holder, record, made))
    const place = warm ?? (await start())
    const ended = await store.write(endCreate, {
      id: record.id,
      status: 'passed',
      place,
      warm: warm !== undefined,
      measures: [observed('duration_ms', clock.nowMs() - beganAtMs)],
    })
    made.held!.session.events.add('created')
    holder.watch(made.held!, made.place!)
    if (shape !== undefined) pool.note(shape, record.spec.container)
    await bringLogins(options, made.held!, record, caller)
    if (leftOut !== undefined)
      return await noted(options, ended.record!, `created from a snapshot, ${leftOut}`)
    return ended.record!
  } catch (error) {
    try {
      await undoInstance(holder, spec, backend, made)
      await removeDisk(options, holder, record)
      await store.write(endCreate, { id: record.id, status: 'failed' })
    } catch (left) {
      // The record stays as `creating`: this is finished as soon as it can be.
      options.logger('error', `could not clean up a sandbox that was not created: ${reasonOf(left)}`, {
        sandbox: spec.id,
      })
      retries.later(spec.id, left)
    }
    throw error
  }
}

/** An image that is there already holds what it holds; of Craik's own, each has the tools. */
function harnessIds(
  { harnesses }: ManagerOptions,
  names: readonly string[],
  isOwnImage: boolean,
): readonly string[] {
  if (names.length === 0) return isOwnImage ? (harnesses?.ids([]) ?? []) : []
  if (harnesses === undefined) throw new CraikError('unavailable', 'harnesses are not available')
  return harnesses.ids(names)
}

/** It is made, whether that can be noted or not. */
function noted(
  { store, logger }: ManagerOptions,
  record: SandboxRecord,
  notice: string,
): Promise<SandboxRecord> {
  return store.write(changeSandbox, { id: record.id, notice }).catch((error) => {
    logger('error', `${notice}; could not record this notice: ${reasonOf(error)}`, { sandbox: record.id })
    return record
  })
}
