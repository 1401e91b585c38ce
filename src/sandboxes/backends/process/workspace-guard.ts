/** Checks the protected names of a workspace, creates those that are missing, and removes them afterwards. */
import {
  type BigIntStats,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../../errors.ts'
import { readPrivateFile, writePrivateFile } from '../../../lib/private-files.ts'
import type { HostUser } from '../../backend.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'
import { type FolderHandle, openFolder } from './folder-handle.ts'
import type { InPlace } from './in-place.ts'
import { folderIdentity } from './inspect-folder.ts'
import { IN_REPOSITORY, IN_WORKSPACE, type ProtectedPath, REPOSITORY } from './protected-paths.ts'

/** A name that is mounted over itself in the sandbox. With `writable`, the mount only keeps it in its place. */
export interface ProtectedName {
  readonly path: string
  readonly writable: boolean
  /** Identifies the file or folder that Craik checked. */
  readonly identity: string
}

const STUBS = 'stubs.json'
/** More than the record of every protected path of a large workspace needs. */
const MAX_STUBS_BYTES = 1024 * 1024
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

const recordSchema = z.strictObject({
  workspace: z.string(),
  stubs: z.array(
    z.strictObject({
      path: z.string(),
      kind: z.enum(['folder', 'file']),
      bytes: z.number().int(),
      /** Identifies the created file or folder. Known only after its creation. */
      identity: z.string().optional(),
    }),
  ),
  /** Every name to mount. Missing in older records. */
  guarded: z.array(z.string()).optional(),
})
type StubRecord = z.infer<typeof recordSchema>
type Stub = StubRecord['stubs'][number]

/**
 * Creates the missing names and returns every name to mount. It first records the names in the sandbox's own folder, so
 * that `releaseWorkspace` finds them whatever happens in between.
 */
export function guardWorkspace(
  sandboxFolder: string,
  { folder: workspace, identity }: InPlace,
  owner: HostUser | undefined,
): ProtectedName[] {
  using root = openFolder(workspace)
  if (folderIdentity(fstatSync(root.descriptor, { bigint: true })) !== identity)
    throw new CraikError('conflict', `the workspace ${workspace} was replaced while Craik checked it`, {
      hint: 'stop the program that replaces the folder, then try again',
    })
  const known = new Set([...createdByOthers(sandboxFolder, workspace), ...readCreatedNames(sandboxFolder)])
  const repository = findRepository(root, known)
  const wanted = [
    // A `.git` file names the real repository, which is elsewhere and not mounted.
    repository?.isFile() ? { ...REPOSITORY, kind: 'file' as const, writable: false } : REPOSITORY,
    ...(repository?.isDirectory() ? IN_REPOSITORY : []),
    ...IN_WORKSPACE,
  ]
  const identities = new Map<string, string>()
  const stubs = wanted.flatMap((one): Stub[] => {
    const found = statPath(root, one)
    if (found !== undefined) {
      refuseUnusable(one, found)
      if (one.kind === 'folder' && !one.writable) refuseHardLinks(root, one.path)
      identities.set(one.path, fileIdentity(found))
    }
    const isFree = found === undefined || known.has(one.path)
    return isFree ? [{ path: one.path, kind: one.kind, bytes: Buffer.byteLength(one.neutral ?? '') }] : []
  })
  write(sandboxFolder, { workspace, stubs })
  const made = stubs.map((stub) => ({ ...stub, identity: createProtectedName(root, stub, wanted, owner) }))
  for (const { path, identity } of made) identities.set(path, identity)
  write(sandboxFolder, { workspace, stubs: made, guarded: wanted.map(({ path }) => path) })
  // A repository that does not exist yet is read-only like other created names: nothing can be created in it.
  return wanted.map(({ path, writable = false }) => ({
    path,
    writable: writable && repository !== undefined,
    identity: identities.get(path)!,
  }))
}

/** Returns the names that Craik created for a sandbox, even if something else has them now. */
export function readCreatedNames(sandboxFolder: string): string[] {
  return read(sandboxFolder)?.stubs.map(({ path }) => path) ?? []
}

/** Returns the names that are mounted over themselves in a sandbox in place. */
export function readMountedNames(sandboxFolder: string): readonly string[] {
  return read(sandboxFolder)?.guarded ?? []
}

/** Removes the names that Craik created, unless they were used since or another sandbox needs them. */
export function releaseWorkspace(sandboxFolder: string): void {
  const record = read(sandboxFolder)
  if (record === undefined) return
  try {
    using root = openFolder(record.workspace)
    const needed = createdByOthers(sandboxFolder, record.workspace)
    for (const stub of record.stubs.toReversed()) if (!needed.has(stub.path)) removeStub(root, stub)
  } catch (error) {
    // The workspace itself is gone, with everything in it.
    if (!(error instanceof CraikError)) throw error
  }
  unlinkSync(join(sandboxFolder, STUBS))
}

/** Opens the folder that contains a protected name: the workspace, or a folder in it that is not a link. */
function within<T>(root: FolderHandle, path: string, use: (at: string) => T): T {
  if (!path.includes('/')) return use(root.at(path))
  using inner = openFolder(root.at(dirname(path)))
  return use(inner.at(basename(path)))
}

/** Returns the repository. A `.git` that Craik created is not one. */
function findRepository(root: FolderHandle, known: ReadonlySet<string>): BigIntStats | undefined {
  const found = statPath(root, REPOSITORY)
  const isStub =
    found?.isDirectory() && known.has(REPOSITORY.path) && readdirSync(root.at('.git')).length === 0
  return isStub ? undefined : found
}

/** An entry of a missing folder is missing too. */
function statPath(root: FolderHandle, { path }: ProtectedPath): BigIntStats | undefined {
  const isIn = path.includes('/')
  if (isIn && lstatSync(root.at(dirname(path)), { throwIfNoEntry: false }) === undefined) return undefined
  return within(root, path, (at) => lstatSync(at, { throwIfNoEntry: false, bigint: true }))
}

function refuseUnusable({ path, kind }: Pick<ProtectedPath, 'path' | 'kind'>, found: BigIntStats): void {
  if (found.isSymbolicLink()) {
    throw new CraikError(
      'usage',
      `${path} in the workspace is a symbolic link, so its target cannot be protected`,
      {
        hint: `replace the link with its target, or ${COPY_INSTEAD}`,
      },
    )
  }
  if (kind === 'folder' ? !found.isDirectory() : !found.isFile()) {
    throw new CraikError('usage', `${path} in the workspace is not a ${kind}`, {
      hint: `move ${path} out of the way, or ${COPY_INSTEAD}`,
    })
  }
  if (kind === 'file' && found.nlink > 1n) throw hardLinkError(path)
}

/** More entries than settings, hooks and submodules have without their objects. */
const MAX_PROTECTED_ENTRIES = 50_000

/** A file in a protected folder could be changed through another hard link elsewhere in the workspace. */
function refuseHardLinks(root: FolderHandle, path: string): void {
  let entries = 0
  const walk = (outer: FolderHandle, name: string, shown: string): void => {
    using folder = openFolder(outer.at(name))
    for (const entry of readdirSync(folder.at('.'), { withFileTypes: true })) {
      const inner = `${shown}/${entry.name}`
      if (++entries > MAX_PROTECTED_ENTRIES)
        throw new CraikError('usage', `${path} in the workspace contains too many files to protect`, {
          hint: COPY_INSTEAD,
        })
      // The names of objects are digests of their content, and git shares them between clones on one disk.
      if (entry.isDirectory() && entry.name !== 'objects') walk(folder, entry.name, inner)
      else if (entry.isFile() && lstatSync(folder.at(entry.name)).nlink > 1) throw hardLinkError(inner)
    }
  }
  if (!path.includes('/')) walk(root, path, path)
  else {
    using above = openFolder(root.at(dirname(path)))
    walk(above, basename(path), path)
  }
}

function hardLinkError(path: string): CraikError {
  return new CraikError(
    'usage',
    `${path} in the workspace has another hard link, through which it could be changed`,
    {
      hint: `replace the file with a copy of itself, or ${COPY_INSTEAD}`,
    },
  )
}

function createProtectedName(
  root: FolderHandle,
  stub: Stub,
  wanted: readonly ProtectedPath[],
  owner: HostUser | undefined,
): string {
  return within(root, stub.path, (at) => {
    try {
      const content = wanted.find(({ path }) => path === stub.path)?.neutral ?? ''
      const made = stub.kind === 'folder' ? makeFolder(at, stub.path, owner) : makeFile(at, content, owner)
      const found = lstatSync(at, { bigint: true })
      refuseUnusable(stub, found)
      if (made !== undefined && made !== fileIdentity(found)) throw replacedError(stub.path)
      return fileIdentity(found)
    } catch (error) {
      if (error instanceof CraikError) throw error
      const { code } = error as NodeJS.ErrnoException
      throw new CraikError('usage', `cannot protect ${stub.path} in the workspace (${code})`, {
        hint: COPY_INSTEAD,
        cause: error,
      })
    }
  })
}

function replacedError(path: string): CraikError {
  return new CraikError('usage', `${path} in the workspace was replaced while the sandbox started`, {
    hint: `stop the program that changes ${path}, or ${COPY_INSTEAD}`,
  })
}

/** The inode number alone is not enough, because the next file can reuse it. */
export function fileIdentity({ ino, birthtimeNs }: BigIntStats): string {
  return `${ino}:${birthtimeNs}`
}

/** Returns `undefined` when the file exists already, because another sandbox created it first. */
function makeFile(at: string, content: string, owner: HostUser | undefined): string | undefined {
  const descriptor = unlessExists(() => openSync(at, CREATE, 0o644))
  if (descriptor === undefined) return undefined
  try {
    writeSync(descriptor, content)
    if (owner !== undefined) fchownSync(descriptor, owner.uid, owner.gid)
    return fileIdentity(fstatSync(descriptor, { bigint: true }))
  } finally {
    closeSync(descriptor)
  }
}

/**
 * `mkdir` does not open the folder, so a process that can write there may replace it first. Craik changes the owner
 * only if the folder belongs to this process and is empty. Then no user gains anything that they could not have
 * removed.
 */
function makeFolder(at: string, path: string, owner: HostUser | undefined): string | undefined {
  if (unlessExists(() => [mkdirSync(at, { mode: 0o755 })]) === undefined) return undefined
  using folder = openFolder(at)
  const stats = fstatSync(folder.descriptor, { bigint: true })
  if (owner !== undefined) {
    const isOurs = stats.uid === BigInt(process.geteuid?.() ?? -1)
    if (!isOurs || readdirSync(folder.at('.')).length > 0) throw replacedError(path)
    fchownSync(folder.descriptor, owner.uid, owner.gid)
  }
  return fileIdentity(stats)
}

function unlessExists<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return undefined
    throw error
  }
}

function removeStub(root: FolderHandle, { path, kind, bytes, identity }: Stub): void {
  try {
    within(root, path, (at) => {
      const found = lstatSync(at, { throwIfNoEntry: false, bigint: true })
      if (found === undefined || (identity !== undefined && fileIdentity(found) !== identity)) return
      // Fails when the folder contains something.
      if (kind === 'folder' && found.isDirectory()) rmdirSync(at)
      // Craik may have been killed before it wrote the content.
      const isUnused = found.size === BigInt(bytes) || (identity === undefined && found.size === 0n)
      if (kind === 'file' && found.isFile() && isUnused) unlinkSync(at)
    })
  } catch {
    // The name is in use now, so it stays.
  }
}

/** Returns the names that other sandboxes of this home created in the same workspace. */
function createdByOthers(sandboxFolder: string, workspace: string): ReadonlySet<string> {
  const all = dirname(sandboxFolder)
  const others = readdirSync(all).filter((name) => name !== basename(sandboxFolder))
  const records = others.flatMap((name) => read(join(all, name)) ?? [])
  return new Set(
    records
      .filter((one) => one.workspace === workspace)
      .flatMap(({ stubs }) => stubs.map(({ path }) => path)),
  )
}

function write(sandboxFolder: string, record: StubRecord): void {
  writePrivateFile(join(sandboxFolder, STUBS), JSON.stringify(record))
}

function read(sandboxFolder: string): StubRecord | undefined {
  try {
    return recordSchema.parse(
      JSON.parse(readPrivateFile(join(sandboxFolder, STUBS), MAX_STUBS_BYTES).toString()),
    )
  } catch {
    return undefined
  }
}
