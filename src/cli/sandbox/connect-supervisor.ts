/** Connects to the supervisor of this home, and starts it if it does not run. */
import type { ApiClient } from '../../sdk/client.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'

/** The caller closes the connection, because an open one keeps the command from exiting. */
export async function connect(context: CliContext): Promise<ApiClient> {
  const { connectSupervisor } = await import('../../supervisor/connect-or-start.ts')
  return connectSupervisor({ ...context, mounted: () => listMountedFolders(context.home, context.store) })
}
