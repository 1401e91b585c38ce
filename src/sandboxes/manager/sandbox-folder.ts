/** A sandbox's own folder on the host. It is created private, and removed without following links in it. */
import { chmod, lstat, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder, hasPrivateFolder } from '../../lib/private-files.ts'
import { removeTree } from '../remove-tree.ts'

const LABEL = 'folder of the sandboxes'

export function sandboxFolder(sandboxes: string, id: string): string {
  if (!/^sbx_[0-9A-Z]{26}$/.test(id)) throw new CraikError('internal', 'a sandbox has an invalid id')
  return join(sandboxes, id)
}

export async function makeSandboxFolder(sandboxes: string, id: string): Promise<string> {
  ensurePrivateFolder(sandboxes, LABEL)
  const folder = sandboxFolder(sandboxes, id)
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError(
      code === 'ENOSPC' || code === 'EDQUOT' ? 'disk_full' : 'home_unwritable',
      `cannot create the folder of sandbox ${id} (${code})`,
      { cause },
    )
  }
  return folder
}

/** Throws if the folder of a stopped sandbox is missing. No other folder is created in its place. */
export async function requireSandboxFolder(sandboxes: string, id: string): Promise<void> {
  hasPrivateFolder(sandboxes, LABEL)
  try {
    await lstat(sandboxFolder(sandboxes, id))
  } catch (cause) {
    throw new CraikError('store_damaged', `the folder sandboxes/${id} with the sandbox’s disk is missing`, {
      hint: `restore the folder from a backup, or delete the sandbox:  craik sandbox delete ${id}`,
      cause,
    })
  }
}

/**
 * Makes the folder private again. While a sandbox starts, a backend may open the folder so that the sandbox's user can
 * pass through it.
 */
export async function closeFolder(sandboxes: string, id: string): Promise<void> {
  const folder = sandboxFolder(sandboxes, id)
  hasPrivateFolder(sandboxes, LABEL)
  const stats = await lstat(folder)
  if (!stats.isDirectory() || stats.uid !== process.geteuid?.()) {
    throw new CraikError(
      'key_exposed',
      `sandboxes/${id} with the sandbox’s disk is not the folder that Craik created: it ${stats.isDirectory() ? `belongs to uid ${stats.uid}` : 'is not a folder'}`,
      {
        hint: `restore the folder from a backup, or delete the sandbox, which loses its files:  craik sandbox delete ${id}`,
      },
    )
  }
  await chmod(folder, 0o700)
}

/** Call this only when nothing runs in the sandbox. */
export async function removeFolder(sandboxes: string, id: string): Promise<void> {
  if (!hasPrivateFolder(sandboxes, LABEL)) return
  try {
    await removeTree(sandboxFolder(sandboxes, id))
  } catch (cause) {
    throw new CraikError('home_unwritable', `cannot remove the folder of sandbox ${id}`, {
      hint: `remove the files of other users from sandboxes/${id}, then run:  craik sandbox delete ${id}`,
      cause,
    })
  }
}
