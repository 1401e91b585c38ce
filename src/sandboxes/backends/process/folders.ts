/** What lies in a sandbox's own folder on the host, and who may reach it. */
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { HostUser } from '../../backend.ts'
import { makeImage } from './disk-image.ts'

/**
 * `data` is the sandbox's disk, `socket` is where the host listens. The folder itself is closed to everybody else, so
 * root mounts what a sandbox's user is to reach in `staged`, where only that sandbox's mount namespace sees it.
 */
export function placeFolders(folder: string) {
  return {
    data: join(folder, 'data'),
    socket: join(folder, 'socket'),
    image: join(folder, 'disk.img'),
    staged: join(folder, 'staged'),
  }
}

export type PlaceFolders = ReturnType<typeof placeFolders>

/** What a disk holds. */
export function diskFolders(data: string) {
  return { home: join(data, 'home'), spill: join(data, 'spill') }
}

/** What is mounted where in `staged`. */
export function stagedFolders(staged: string) {
  return {
    data: join(staged, 'data'),
    socket: join(staged, 'socket'),
    runtime: join(staged, 'runtime'),
    workspace: join(staged, 'workspace'),
    exclude: join(staged, 'git-exclude'),
  }
}

/**
 * With a size the disk is a file system of its own, mounted when the sandbox starts. A disk that is there already is that
 * of a sandbox that was stopped: nothing in it is touched, because whatever ran in it may have put links anywhere.
 */
export async function makeFolders(
  folder: string,
  user: HostUser | undefined,
  imageBytes: number | undefined,
): Promise<PlaceFolders> {
  const folders = placeFolders(folder)
  const staged = stagedFolders(folders.staged)
  const mountPoints = [staged.data, staged.socket, staged.runtime, staged.workspace]
  for (const path of [folders.data, folders.socket, folders.staged, ...mountPoints]) {
    await mkdir(path, { recursive: true })
    await chmod(path, 0o755)
  }
  const disk = imageBytes === undefined ? diskFolders(folders.data).spill : folders.image
  if (existsSync(disk)) return folders
  if (imageBytes === undefined) {
    await fillDisk(folders.data, user)
    return folders
  }
  const content = join(folder, 'disk')
  await mkdir(content)
  await chmod(content, 0o755)
  await fillDisk(content, user)
  await makeImage(folders.image, imageBytes, content)
  await rm(content, { recursive: true })
  return folders
}

/** Empty, and the sandbox’s own. */
export async function fillDisk(disk: string, user: HostUser | undefined): Promise<void> {
  for (const name of ['home', 'home/workspace', 'spill']) {
    const path = join(disk, name)
    await mkdir(path, { mode: 0o700 })
    // The sandbox's user is told nothing of a umask of ours.
    await chmod(path, name === 'home/workspace' ? 0o755 : 0o700)
    if (user !== undefined) await chown(path, user.uid, user.gid)
  }
}
