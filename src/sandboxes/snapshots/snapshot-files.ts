/** Stores the files of a snapshot: first under a temporary name, then completely or not at all. */
import { lstatSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import { ensurePrivateFolder, hasPrivateFolder } from '../../lib/private-files.ts'
import { SNAPSHOT_ID } from './snapshot-manifest.ts'

export const ARCHIVE_NAME = 'disk.tar.zst'
export const MANIFEST_NAME = 'manifest.json'
const PARTIAL = '.partial-'
const LABEL = 'snapshots folder'

/** `snapshots` is the folder that contains all snapshots. */
function archiveOf(snapshots: string, id: SnapshotId): string {
  return join(folderOf(snapshots, id), ARCHIVE_NAME)
}

/** The files in `folder` count as a snapshot only after `publish`. `drop` removes them, published or not. */
export interface PartialSnapshot {
  readonly folder: string
  readonly archive: string
  publish(manifest: string): Promise<void>
  drop(): Promise<void>
}

export async function beginSnapshotFiles(snapshots: string, id: SnapshotId): Promise<PartialSnapshot> {
  ensurePrivateFolder(snapshots, LABEL)
  const folder = join(snapshots, `${PARTIAL}${id}`)
  const published = folderOf(snapshots, id)
  await withWriteErrors(() => mkdir(folder, { mode: 0o700 }))
  return {
    folder,
    archive: join(folder, ARCHIVE_NAME),
    async publish(manifest) {
      await withWriteErrors(async () => {
        const file = await open(join(folder, MANIFEST_NAME), 'wx', 0o600)
        try {
          await file.writeFile(manifest)
          await file.sync()
        } finally {
          await file.close()
        }
        await syncFolder(folder)
        await rename(folder, published)
        await syncFolder(snapshots)
      })
    },
    async drop() {
      await rm(folder, { recursive: true, force: true })
      await rm(published, { recursive: true, force: true })
    },
  }
}

export async function removeSnapshotFiles(snapshots: string, id: SnapshotId): Promise<void> {
  const folder = folderOf(snapshots, id)
  if (hasPrivateFolder(snapshots, LABEL)) await rm(folder, { recursive: true, force: true })
}

/**
 * Removes unlisted files, which belong to unfinished snapshots. Call it only when no snapshot is being created. Returns
 * the removed names.
 */
export async function sweepSnapshotFiles(
  snapshots: string,
  isListed: (id: string) => boolean,
): Promise<readonly string[]> {
  if (!hasPrivateFolder(snapshots, LABEL)) return []
  const left = (await readdir(snapshots)).filter(
    (name) => name.startsWith(PARTIAL) || (SNAPSHOT_ID.test(name) && !isListed(name)),
  )
  for (const name of left) await rm(join(snapshots, name), { recursive: true, force: true })
  return left
}

/** Opens the archive for reading if it is a file of the expected size. */
export async function openArchive(snapshots: string, id: SnapshotId, bytes: number) {
  const path = archiveOf(snapshots, id)
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found?.isFile() !== true || found.size !== bytes)
    throw new CraikError('tampered', `the archive of snapshot ${id} is missing or was changed`, {
      hint: `restore the archive from a backup, or delete the snapshot:  craik snapshot delete ${id}`,
    })
  return open(path)
}

function folderOf(snapshots: string, id: SnapshotId): string {
  if (!SNAPSHOT_ID.test(id)) throw new CraikError('internal', 'a snapshot has an invalid id')
  return join(snapshots, id)
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  await folder.sync().finally(() => folder.close())
}

async function withWriteErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw asWriteError(cause)
  }
}

/** Translates the system's errors when a part of a snapshot cannot be written. */
export function asWriteError(cause: unknown): unknown {
  const { code, syscall } = cause as NodeJS.ErrnoException
  if (cause instanceof CraikError || syscall === undefined) return cause
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', 'no space left for the snapshot', {
      hint: 'free some space, for example with:  craik snapshot delete ID',
      cause,
    })
  return new CraikError('home_unwritable', `cannot write the snapshot (${code})`, { cause })
}
