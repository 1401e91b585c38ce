/** Checks whether a sandbox can work in a caller's folder itself, instead of in a copy. */
import { CraikError } from '../../../errors.ts'
import type { HostUser } from '../../backend.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'
import { resolveWorkspace, type Workspace } from './workspace.ts'
import { refuseSockets } from './workspace-sockets.ts'

export type InPlace = Pick<Workspace, 'folder' | 'identity'>

export async function checkInPlace(
  requested: string,
  user: HostUser | undefined,
  around: { readonly craikHome: string; readonly environment: NodeJS.ProcessEnv },
): Promise<InPlace> {
  const { folder, identity, owner, covered } = resolveWorkspace(
    requested,
    around.craikHome,
    around.environment,
  )
  // A user who can rename the folders above the Craik home controls what the next command finds there.
  if (covered.length > 0)
    throw new CraikError('usage', 'the workspace contains Craik’s own home', { hint: COPY_INSTEAD })
  const { uid } = owner
  if (uid === 0)
    throw new CraikError('usage', 'the workspace belongs to root and can only be copied', {
      hint: COPY_INSTEAD,
    })
  if (uid !== (user?.uid ?? process.getuid?.() ?? 0)) {
    throw new CraikError('usage', `the workspace belongs to another user (uid ${uid})`, {
      hint: COPY_INSTEAD,
    })
  }
  await refuseSockets(folder)
  return { folder, identity }
}
