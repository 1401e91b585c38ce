/** The folders of the host that sandboxes can write to. Craik executes no program in one of them on the host. */
import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import { quoteArgument } from '../lib/shlex.ts'
import type { Home } from './home.ts'
import type { Store } from './store.ts'

/** More sandboxes than a home can have. */
const MAX_ROWS = 1024

/** Only the newest folders that sandboxes could write to count, so that the file stays small. */
const MAX_FOLDERS = 1024
/** The limit for the file. With unusually long paths, it contains fewer folders. */
const MAX_BYTES = 1024 * 1024
const mountedFoldersSchema = z.array(z.string().max(4096)).max(MAX_FOLDERS)

/** Records a folder before a sandbox can write to it. The files in it stay untrusted after the sandbox is deleted. */
export function recordMountedFolder(home: Home, folder: string): void {
  const lent = readMountedFolders(home)
  if (lent.includes(folder)) return
  mkdirSync(dirname(mountedFoldersFile(home)), { recursive: true, mode: 0o700 })
  let stored = [...lent, folder].slice(-MAX_FOLDERS)
  while (Buffer.byteLength(JSON.stringify(stored)) > MAX_BYTES) stored = stored.slice(1)
  writePrivateFile(mountedFoldersFile(home), JSON.stringify(stored))
}

function mountedFoldersFile(home: Home): string {
  return join(dirname(home.database), 'lent-folders.json')
}

function readMountedFolders(home: Home): readonly string[] {
  const file = mountedFoldersFile(home)
  // A link with a missing target does not count as a missing list.
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return []
  try {
    return mountedFoldersSchema.parse(JSON.parse(readPrivateFile(file, MAX_BYTES, 'file').toString()))
  } catch (cause) {
    const problem = cause instanceof CraikError ? cause.message : 'the file is not a JSON list of paths'
    throw new CraikError(
      'invalid_config',
      `cannot read ${file}, the list of folders that sandboxes could write: ${problem}`,
      {
        hint: `remove the file:  rm ${quoteArgument(file)}   Craik then trusts programs in folders of deleted sandboxes again`,
        cause,
      },
    )
  }
}

/**
 * Includes the folders of stopped and deleted sandboxes. Also includes the Craik home, because it contains disks and
 * volumes.
 */
export async function listMountedFolders(
  home: Home,
  store: () => Promise<Store>,
): Promise<readonly string[]> {
  // A read must not create a database.
  if (!existsSync(home.database)) return [home.root, ...readMountedFolders(home)]
  const rows = await (await store()).read((tables) => tables.sandboxes.list({}, MAX_ROWS))
  return [home.root, ...readMountedFolders(home), ...rows.flatMap(({ document }) => folderIn(document) ?? [])]
}

/**
 * Reads the folder from the record without verifying its seal, because a changed record can only forbid more. A sandbox
 * with a record that is not JSON cannot start.
 */
function folderIn(document: string): string | undefined {
  try {
    const { spec } = JSON.parse(document) as { spec?: { workspace?: { folder?: unknown } } }
    const folder = spec?.workspace?.folder
    return typeof folder === 'string' ? folder : undefined
  } catch {
    return undefined
  }
}
