/** Lists volumes, and deletes those that no sandbox has. */
import { CraikError } from '../../errors.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { MAX_SANDBOXES } from '../lifecycle/sandbox-record.ts'
import type { ManagedVolumes, ManagerCaller, VolumeView } from '../manager-types.ts'
import { removeTree } from '../remove-tree.ts'
import { beginDeleteVolume, endDeleteVolume } from '../volumes/tokens.ts'
import { findVolumes, measureVolume, setAside, sweepVolumes } from '../volumes/volume-folders.ts'
import { volumeUsers } from '../volumes/volume-users.ts'
import type { ManagerOptions } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { reasonOf, transitionError } from './transition.ts'

/** `whole` makes the manager wait for the work when it closes. */
export function createManagedVolumes(
  options: ManagerOptions,
  registry: SandboxRegistry,
  whole: <T>(work: Promise<T>) => Promise<T>,
): ManagedVolumes {
  return {
    list: (until) => listVolumes(options, until),
    delete: (caller, name) => whole(deleteVolume(options, registry, caller, name)),
  }
}

async function listVolumes({ store, home }: ManagerOptions, until: AbortSignal): Promise<VolumeView[]> {
  const rows = await store.read((tables) => tables.sandboxes.list({}, 2 * MAX_SANDBOXES))
  const holders = volumeUsers(rows)
  const views: VolumeView[] = []
  for (const { name, folder, createdAtMs } of await findVolumes(home.volumes))
    views.push({
      name,
      sizeBytes: (await measureVolume(folder, until)) ?? null,
      usedBy: holders.get(name) ?? null,
      createdAtMs,
    })
  return views
}

/** Deletes a volume. No sandbox begins to use it between the decision and the moment when it loses its name. */
async function deleteVolume(
  options: ManagerOptions,
  registry: SandboxRegistry,
  caller: ManagerCaller,
  name: string,
): Promise<void> {
  const { store, log, home } = options
  const { begun, aside } = await registry.volumes.run(caller.signal, async () => {
    if (!(await findVolumes(home.volumes)).some((one) => one.name === name))
      throw new CraikError('not_found', `unknown volume: ${name}`, {
        hint: 'list volumes:  craik volume list',
      })
    const answer = await store.write(beginDeleteVolume, {
      name,
      operator: caller.operator,
      ...(caller.grantId !== undefined && { grantId: caller.grantId }),
      owner: log.owner,
    })
    if (answer.effect === 'denied') throw deniedOperationError(answer)
    const { begun } = answer
    return { begun, aside: await setAside(home.volumes, name).catch((error: unknown) => ({ error })) }
  })
  try {
    if (typeof aside === 'object') throw aside.error
    if (aside !== undefined) await removeTree(aside)
  } catch (error) {
    await store.write(endDeleteVolume, { begun, status: 'failed' })
    throw transitionError(error, `volume ${name} could not be removed`)
  }
  await store.write(endDeleteVolume, { begun, status: 'passed' })
}

/** Runs once, before the manager creates anything. It removes the volumes that a dead process was deleting. */
export async function recoverVolumes({ home, logger }: ManagerOptions): Promise<void> {
  await sweepVolumes(home.volumes).catch((error) =>
    logger('warn', `could not remove the files of a deleted volume: ${reasonOf(error)}`),
  )
}
