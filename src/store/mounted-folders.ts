/** Folders of the host that sandboxes can write: no program in one of them is executed on the host. */
import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import type { Home } from './home.ts'
import type { Store } from './store.ts'

/** More than a home can have. */
const MAX_ROWS = 1024

/** The newest folders that sandboxes could write count, so that the file stays small. */
const MAX_LENT = 1024
/** Of the file. Longer paths than usual leave room for fewer folders. */
const MAX_BYTES = 1024 * 1024
const lentFolders = z.array(z.string().max(4096)).max(MAX_LENT)

/**
 * Remembers a folder that a sandbox is about to write. What the sandbox leaves there stays untrusted when it is deleted.
 */
export function recordMountedFolder(home: Home, folder: string): void {
  const lent = readLent(home)
  if (lent.includes(folder)) return
  mkdirSync(dirname(lentFile(home)), { recursive: true, mode: 0o700 })
  let stored = [...lent, folder].slice(-MAX_LENT)
  while (Buffer.byteLength(JSON.stringify(stored)) > MAX_BYTES) stored = stored.slice(1)
  writePrivateFile(lentFile(home), JSON.stringify(stored))
}

function lentFile(home: Home): string {
  return join(dirname(home.database), 'lent-folders.json')
}

function readLent(home: Home): readonly string[] {
  const file = lentFile(home)
  // A link that leads nowhere is no missing list.
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return []
  try {
    return lentFolders.parse(JSON.parse(readPrivateFile(file, MAX_BYTES, 'file').toString()))
  } catch (cause) {
    const problem = cause instanceof CraikError ? cause.message : 'the file is not a JSON list of paths'
    throw new CraikError(
      'invalid_config',
      `cannot read ${file}, the list of folders that sandboxes could write: ${problem}`,
      {
        hint: 'remove that file; Craik then trusts programs in folders of deleted sandboxes again',
        cause,
      },
    )
  }
}

/** Also of sandboxes that are stopped or deleted. Craik's own home counts, because disks and volumes lie in it. */
export async function listMountedFolders(
  home: Home,
  store: () => Promise<Store>,
): Promise<readonly string[]> {
  // Looking makes no database where there is none.
  if (!existsSync(home.database)) return [home.root, ...readLent(home)]
  const rows = await (await store()).read((tables) => tables.sandboxes.list({}, MAX_ROWS))
  return [home.root, ...readLent(home), ...rows.flatMap(({ document }) => folderIn(document) ?? [])]
}

/** As the record says, sealed or not: one that somebody changed can only forbid more. One that is no JSON starts no sandbox. */
function folderIn(document: string): string | undefined {
  try {
    const { spec } = JSON.parse(document) as { spec?: { workspace?: { folder?: unknown } } }
    const folder = spec?.workspace?.folder
    return typeof folder === 'string' ? folder : undefined
  } catch {
    return undefined
  }
}
