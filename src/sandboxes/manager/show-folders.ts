/** Shows the folders of a sandbox that is being created to the place that it adopted, or gives that place up. */
import { CraikError } from '../../errors.ts'
import type { RecordedPlace, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { Holder } from './holder.ts'
import { backendCalled, type ManagerOptions } from './options.ts'
import { removeDisk, type Started, undoPlace } from './start-place.ts'
import { reasonOf } from './transition.ts'

/**
 * Undefined when it could not be: then nothing of it is left, and one is started as if none had waited. What may not be
 * shown is refused at once, because it would be again.
 */
export async function showFolders(
  options: ManagerOptions,
  holder: Holder,
  record: SandboxRecord,
  made: Started,
): Promise<RecordedPlace | undefined> {
  const spec = holder.specOf(record)
  try {
    if (made.place?.show === undefined || record.place === null)
      throw new CraikError('internal', 'a place was adopted that can be shown nothing')
    await made.place.show(spec)
    return record.place
  } catch (error) {
    if (error instanceof CraikError && error.code === 'usage') throw error
    options.logger('warn', `a place that waited is not used: ${reasonOf(error)}`, { sandbox: record.id })
    await undoPlace(holder, spec, backendCalled(options.backends, record.backend), made)
    await removeDisk(options, holder, record)
    delete made.held
    delete made.place
    return undefined
  }
}
