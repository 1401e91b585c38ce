/** Removes a sandbox: what runs in it, what holds it, its folder, and then its record. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxSpec } from '../backend.ts'
import { deniedOperation } from '../lifecycle/denied.ts'
import { isDamage, type SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  type BeginDeleteInput,
  type BeginDeleteOutput,
  beginDelete,
  beginDeleteDamaged,
  closeLeftEpochs,
  endDelete,
  endDeleteDamaged,
} from '../lifecycle/tokens.ts'
import type { Caller } from '../manager-types.ts'
import { folderOf, removeFolder } from './folders.ts'
import type { Holder } from './holder.ts'
import type { ManagerOptions } from './options.ts'

export async function deleteSandbox(
  options: ManagerOptions,
  holder: Holder,
  caller: Caller,
  id: SandboxId,
): Promise<void> {
  const input: BeginDeleteInput = {
    id,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: options.log.owner,
  }
  let answer: BeginDeleteOutput
  try {
    answer = await options.store.write(beginDelete, input)
  } catch (error) {
    if (!isDamage(error)) throw error
    return deleteDamaged(options, holder, input)
  }
  if (answer.effect === 'denied') throw deniedOperation(answer)
  // From here on it is not given up when the caller leaves: half a sandbox is of no use to anybody.
  await finishDelete(options, holder, answer.record)
}

/** What its record says is not believed: the place is found by the id alone, as every kind of place it can be. */
async function deleteDamaged(
  options: ManagerOptions,
  holder: Holder,
  input: BeginDeleteInput,
): Promise<void> {
  const { store, home, backends } = options
  const { id } = input
  const answer = await store.write(beginDeleteDamaged, input)
  if (answer.effect === 'denied') throw deniedOperation(answer)
  const { begun } = answer
  try {
    const held = holder.get(id)
    if (held !== undefined) await holder.letGo(held)
    await held?.session.place?.destroy()
    for (const backend of Object.values(backends)) {
      for (const isolation of ['process', 'none'] as const)
        await backend.sweep(bareSpec(home.sandboxes, id, isolation), undefined)
    }
    await removeFolder(home.sandboxes, id)
  } catch (error) {
    await store.write(endDeleteDamaged, { id, begun, status: 'failed' })
    throw error
  }
  await store.write(endDeleteDamaged, { id, begun, status: 'passed' })
}

function bareSpec(sandboxes: string, id: SandboxId, isolation: 'process' | 'none'): SandboxSpec {
  return {
    id,
    isolation,
    folder: folderOf(sandboxes, id),
    workspace: { mode: 'copy' },
    limits: { memoryBytes: 0, processes: 0 },
    hostUser: undefined,
    environment: {},
  }
}

/** Also for what an earlier process began. */
export async function finishDelete(
  options: ManagerOptions,
  holder: Holder,
  record: SandboxRecord,
): Promise<void> {
  try {
    await takeDown(options, holder, record)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    await options.store.write(endDelete, {
      id: record.id,
      status: 'failed',
      notice: `it could not be removed: ${why}`.slice(0, 500),
    })
    throw error instanceof CraikError
      ? error
      : new CraikError('internal', `sandbox ${record.name} could not be removed`, { cause: error })
  }
  await options.store.write(endDelete, { id: record.id, status: 'passed' })
}

/** Nothing of it runs and nothing of it is left, whatever state it was in. */
export async function takeDown(
  { store, backends, home }: ManagerOptions,
  holder: Holder,
  record: SandboxRecord,
): Promise<void> {
  const spec = holder.specOf(record)
  const backend = backends[record.backend]
  const held = holder.get(record.id)
  if (held !== undefined) await holder.letGo(held)
  const handle = holder.handleOf(record)
  const place = held?.session.place ?? (handle && (await backend.recover(handle, spec)))
  await place?.destroy()
  await backend.sweep(spec, handle)
  await removeFolder(home.sandboxes, record.id)
  await store.write(closeLeftEpochs, { id: record.id })
}
