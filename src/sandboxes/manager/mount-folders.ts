/** Mounts the folders of a new sandbox in the warm instance that it adopted, or gives that instance up. */
import { CraikError } from '../../errors.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { removeDisk, type Started, undoInstance } from './start-instance.ts'
import { reasonOf } from './transition.ts'

/**
 * Returns `undefined` when the mount failed. Then nothing of the instance is left, and the caller starts another one. A
 * folder that may not be mounted is refused at once, because another instance would refuse it too.
 */
export async function showFolders(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
): Promise<RecordedInstance | undefined> {
  const spec = registry.specOf(record)
  try {
    if (made.instance?.mountFolders === undefined || record.place === null)
      throw new CraikError('internal', 'the adopted sandbox instance does not support hot mounts')
    await made.instance.mountFolders(spec)
    return record.place
  } catch (error) {
    if (error instanceof CraikError && error.code === 'usage') throw error
    options.logger('warn', `cannot use a warm instance: ${reasonOf(error)}`, { sandbox: record.id })
    await undoInstance(registry, spec, requireBackend(options.backends, record.backend), made)
    await removeDisk(options, registry, record)
    delete made.active
    delete made.instance
    return undefined
  }
}
