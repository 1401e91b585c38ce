/** The content of a sandbox's own folder on the host, and its permissions. */
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { HostUser, VolumeSpec } from '../../backend.ts'
import { makeMountPoints } from '../../volumes/mount-points.ts'
import { attachImage } from './attach-disk.ts'
import { makeDiskImage } from './disk-image.ts'

/**
 * `data` is the sandbox's disk. The host listens in `socket`. Other users cannot enter the folder itself. So root
 * mounts what the sandbox's user needs in `staged`, visible only in that sandbox's mount namespace.
 */
export function instanceFolders(folder: string) {
  return {
    data: join(folder, 'data'),
    socket: join(folder, 'socket'),
    image: join(folder, 'disk.img'),
    staged: join(folder, 'staged'),
  }
}

export type InstanceFolders = ReturnType<typeof instanceFolders>

/** The folders of a disk. */
export function diskFolders(data: string) {
  return { home: join(data, 'home'), spill: join(data, 'spill') }
}

/** The mount points in `staged`. */
export function stagingFolders(staged: string) {
  return {
    data: join(staged, 'data'),
    socket: join(staged, 'socket'),
    runtime: join(staged, 'runtime'),
    harnesses: join(staged, 'harnesses'),
    workspace: join(staged, 'workspace'),
    volumes: join(staged, 'volumes'),
    exclude: join(staged, 'git-exclude'),
  }
}

/**
 * Creates the folders. With a size, the disk is a separate file system, mounted when the sandbox starts. An existing
 * disk belongs to a stopped sandbox. There this function only creates mount points for volumes and changes nothing
 * else, because the sandbox may have left links anywhere.
 */
export async function makeFolders(
  folder: string,
  user: HostUser | undefined,
  imageBytes: number | undefined,
  volumes: readonly VolumeSpec[] = [],
): Promise<InstanceFolders> {
  const folders = instanceFolders(folder)
  const staged = stagingFolders(folders.staged)
  const mountPoints = [
    staged.data,
    staged.socket,
    staged.runtime,
    staged.harnesses,
    staged.workspace,
    staged.volumes,
    ...volumes.map(({ name }) => join(staged.volumes, name)),
  ]
  for (const path of [folders.data, folders.socket, folders.staged, ...mountPoints]) {
    await mkdir(path, { recursive: true })
    await chmod(path, 0o755)
  }
  const disk = imageBytes === undefined ? diskFolders(folders.data).spill : folders.image
  if (existsSync(disk)) {
    if (volumes.length > 0) await createVolumeMountPoints(folders, imageBytes !== undefined, volumes, user)
    return folders
  }
  if (imageBytes === undefined) {
    await writeDisk(folders.data, user, volumes)
    return folders
  }
  const content = join(folder, 'disk')
  await mkdir(content)
  await chmod(content, 0o755)
  await writeDisk(content, user, volumes)
  await makeDiskImage(folders.image, imageBytes, content)
  await rm(content, { recursive: true })
  return folders
}

async function createVolumeMountPoints(
  { data, image }: InstanceFolders,
  isImage: boolean,
  volumes: readonly VolumeSpec[],
  user: HostUser | undefined,
): Promise<void> {
  if (!isImage) return makeMountPoints(diskFolders(data).home, volumes, user)
  const reached = await attachImage(image, dirname(image))
  try {
    makeMountPoints(diskFolders(reached.path).home, volumes, user)
  } finally {
    await reached.close()
  }
}

/** Creates the folders of an empty disk, owned by the sandbox's user. */
export async function writeDisk(
  disk: string,
  user: HostUser | undefined,
  volumes: readonly VolumeSpec[] = [],
): Promise<void> {
  for (const name of ['home', 'home/project', 'spill']) {
    const path = join(disk, name)
    await mkdir(path, { mode: 0o700 })
    // Craik's umask must not apply to the sandbox's user.
    await chmod(path, name === 'home/project' ? 0o755 : 0o700)
    if (user !== undefined) await chown(path, user.uid, user.gid)
  }
  makeMountPoints(diskFolders(disk).home, volumes, user)
}
