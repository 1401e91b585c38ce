/** A connection to the supervisor of this home, which is started when there is none. */
import type { ApiClient } from '../../sdk/client.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'

/** Closed by the caller: an open connection keeps the command from ending. */
export async function connect(context: CliContext): Promise<ApiClient> {
  const { connectSupervisor } = await import('../../supervisor/connect-or-start.ts')
  return connectSupervisor({ ...context, mounted: () => listMountedFolders(context.home, context.store) })
}
