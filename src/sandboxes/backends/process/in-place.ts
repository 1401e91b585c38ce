/** Whether a folder of the caller can be given to a sandbox to work in, itself and not a copy. */
import { lstatSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import type { HostUser } from '../../backend.ts'
import { resolveWorkspace } from './workspace.ts'
import { refuseSockets } from './workspace-sockets.ts'

const COPY = 'work on a copy: leave out --in-place'

/** Its real path, and what tells it from another folder put in its place. */
export interface InPlace {
  readonly folder: string
  readonly identity: string
}

export async function checkInPlace(
  asked: string,
  user: HostUser | undefined,
  around: { readonly craikHome: string; readonly environment: NodeJS.ProcessEnv },
): Promise<InPlace> {
  const { folder, covered } = resolveWorkspace(asked, around.craikHome, around.environment)
  // Who may rename the folders above Craik's home chooses what the next command finds there.
  if (covered.length > 0)
    throw new CraikError('usage', 'the workspace holds Craik’s own home', { hint: COPY })
  const { uid, dev, ino } = lstatSync(folder, { bigint: true })
  if (uid === 0n) throw new CraikError('usage', 'the workspace belongs to root: copy only', { hint: COPY })
  if (uid !== BigInt(user?.uid ?? process.getuid?.() ?? 0)) {
    throw new CraikError('usage', `the workspace belongs to another user (uid ${uid})`, { hint: COPY })
  }
  await refuseSockets(folder)
  return { folder, identity: `${dev}:${ino}` }
}
