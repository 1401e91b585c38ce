/** Manages sandbox disks in host folders, for every backend: archives, creates and exchanges them. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import { packFolder } from '../../../lib/safe-tar/pack.ts'
import { type UnpackReport, unpackInto } from '../../../lib/safe-tar/unpack.ts'
import type { HostUser, InstanceHandle, SandboxSpec } from '../../backend.ts'
import { removeTree } from '../../remove-tree.ts'
import type { ReadDiskOptions, SandboxDisks, WriteDiskOptions } from '../../sandbox-disks.ts'
import { type AttachedDisk, attachImage } from './attach-disk.ts'
import { makeDiskImage } from './disk-image.ts'
import { diskFolders, instanceFolders, writeDisk } from './instance-folders.ts'
import { syncFileSystem } from './sync-file-system.ts'

/** The differences between backends. */
export interface DiskDeps {
  /** Returns the owner of the files. `undefined` means the user who runs Craik. */
  ownerOf(spec: SandboxSpec): HostUser | undefined
  /** Returns the size of the disk's file system. `undefined` means a plain folder. */
  imageBytesOf(spec: SandboxSpec): Promise<number | undefined>
  /** Returns where to reach the disk of a running instance when it is a file system. */
  reachRunning(spec: SandboxSpec, running: InstanceHandle): Promise<AttachedDisk>
}

export function folderDisks(deps: DiskDeps): SandboxDisks {
  return {
    async read(spec, running, options) {
      const reached = await reach(deps, spec, running)
      try {
        const packing = await packHome(reached.path, options)
        return { ...packing, finish: () => reached.close() }
      } catch (error) {
        await reached.close().catch(() => {})
        throw error
      }
    },

    async write(spec, archive, options) {
      try {
        await removeAll(spec, 'next')
        const imageBytes = await deps.imageBytesOf(spec)
        const write = imageBytes === undefined ? writeFolder : writeImage(imageBytes)
        return await write(spec, deps.ownerOf(spec), archive, options)
      } catch (error) {
        archive.destroy()
        await removeAll(spec, 'next').catch(() => {})
        throw error
      }
    },

    async exchange(spec) {
      const found = namesOf(spec).find(({ next }) => existsSync(next))
      if (found === undefined)
        throw new CraikError(
          'internal',
          `cannot replace the disk of sandbox ${spec.id}: no new disk was prepared`,
        )
      const { disk, next, before } = found
      await removeTree(before)
      if (existsSync(disk)) await rename(disk, before)
      await rename(next, disk)
      await syncFolder(dirname(disk))
    },

    isExchanged: async (spec) => namesOf(spec).some(({ before }) => existsSync(before)),

    async revert(spec) {
      for (const { disk, before } of namesOf(spec)) {
        if (!existsSync(before)) continue
        await removeTree(disk)
        await rename(before, disk)
      }
      await removeAll(spec, 'next')
    },

    async keepCurrent(spec) {
      await removeAll(spec, 'before')
      await removeAll(spec, 'next')
    },
  }
}

/** A disk is either an image or a folder. The folder of an image is only its mount point. */
function namesOf({ folder }: SandboxSpec) {
  const { data, image } = instanceFolders(folder)
  return [image, data].map((disk) => ({ disk, next: `${disk}.next`, before: `${disk}.before` }))
}

async function removeAll(spec: SandboxSpec, which: 'next' | 'before'): Promise<void> {
  for (const names of namesOf(spec)) await removeTree(names[which])
}

async function reach(
  deps: DiskDeps,
  spec: SandboxSpec,
  running: InstanceHandle | undefined,
): Promise<AttachedDisk> {
  const { data, image } = instanceFolders(spec.folder)
  if (!existsSync(image)) return { path: data, close: async () => {} }
  return running === undefined ? attachImage(image, spec.folder) : deps.reachRunning(spec, running)
}

function packHome(disk: string, { signal, limits, exclude }: ReadDiskOptions) {
  return packFolder(diskFolders(disk).home, { signal, limits, exclude, hardLinks: true })
}

async function writeFolder(
  spec: SandboxSpec,
  owner: HostUser | undefined,
  archive: Readable,
  options: WriteDiskOptions,
): Promise<UnpackReport> {
  const next = `${instanceFolders(spec.folder).data}.next`
  await mkdir(next)
  await chmod(next, 0o755)
  await writeDisk(next, owner)
  const report = await unpackHome(next, owner, archive, options)
  await syncFileSystem(next)
  return report
}

function writeImage(imageBytes: number) {
  return async (
    spec: SandboxSpec,
    owner: HostUser | undefined,
    archive: Readable,
    options: WriteDiskOptions,
  ): Promise<UnpackReport> => {
    const next = `${instanceFolders(spec.folder).image}.next`
    const content = join(spec.folder, 'disk')
    await rm(content, { recursive: true, force: true })
    await mkdir(content)
    await chmod(content, 0o755)
    await writeDisk(content, owner)
    await makeDiskImage(next, imageBytes, content)
    await rm(content, { recursive: true })
    const reached = await attachImage(next, spec.folder)
    let report: UnpackReport
    try {
      report = await unpackHome(reached.path, owner, archive, options)
    } catch (error) {
      await reached.close().catch(() => {})
      throw error
    }
    await reached.close()
    const file = await open(next)
    await file.sync().finally(() => file.close())
    return report
  }
}

function unpackHome(
  disk: string,
  owner: HostUser | undefined,
  archive: Readable,
  { limits, signal }: WriteDiskOptions,
): Promise<UnpackReport> {
  return unpackInto(diskFolders(disk).home, archive, limits, signal, {
    displayName: 'the disk of the sandbox',
    asDisk: owner === undefined ? {} : { owner },
  })
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  await folder.sync().finally(() => folder.close())
}
