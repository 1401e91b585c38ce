/** Chooses the user whose rights a sandbox's programs have on the host. It is never root. */
import { CraikError } from '../../../errors.ts'
import type { HostUser, SandboxSpec } from '../../backend.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'

/** Returns `undefined` for the user who runs Craik, who is not root then. */
export function chooseHostUser(spec: SandboxSpec, ownUid = process.getuid?.()): HostUser | undefined {
  const { hostUser } = spec
  if (ownUid !== 0) {
    if (hostUser === undefined || hostUser.uid === ownUid) return undefined
    throw new CraikError('unavailable', `only root can run a sandbox as another user (uid ${hostUser.uid})`, {
      hint: 'run craik as root, or create another sandbox:  craik sandbox create',
    })
  }
  if (hostUser === undefined) throw new CraikError('internal', 'a sandbox of root needs its own host user')
  if (hostUser.uid === 0 || hostUser.gid === 0) {
    throw new CraikError('usage', 'a sandbox cannot run as root or in root’s group', {
      hint: COPY_INSTEAD,
    })
  }
  return hostUser
}
