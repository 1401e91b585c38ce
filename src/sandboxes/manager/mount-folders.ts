/** Shows the folders of a sandbox that is being created to the place that it adopted, or gives that place up. */
import { CraikError } from '../../errors.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { backendCalled, type ManagerOptions } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { removeDisk, type Started, undoInstance } from './start-instance.ts'
import { reasonOf } from './transition.ts'

/**
 * Undefined when it could not be: then nothing of it is left, and one is started as if none had waited. What may not be
 * shown is refused at once, because it would be again.
 */
export async function showFolders(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
): Promise<RecordedInstance | undefined> {
  const spec = registry.specOf(record)
  try {
    if (made.instance?.show === undefined || record.place === null)
      throw new CraikError('internal', 'the adopted sandbox instance does not support hot mounts')
    await made.instance.show(spec)
    return record.place
  } catch (error) {
    if (error instanceof CraikError && error.code === 'usage') throw error
    options.logger('warn', `cannot use a warm instance: ${reasonOf(error)}`, { sandbox: record.id })
    await undoInstance(registry, spec, backendCalled(options.backends, record.backend), made)
    await removeDisk(options, registry, record)
    delete made.held
    delete made.instance
    return undefined
  }
}
