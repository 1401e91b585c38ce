/** Looks at the protected names of a workspace, takes those that are free, and gives them back afterwards. */
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

/** What is mounted over itself inside; `writable` only so that it stays where it is. */
export interface Guarded {
  readonly path: string
  readonly writable: boolean
  /** Which one it is that was looked at. */
  readonly identity: string
}

const STUBS = 'stubs.json'
/** More than every protected path of a large workspace takes. */
const MAX_STUBS_BYTES = 1024 * 1024
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

const recordSchema = z.strictObject({
  workspace: z.string(),
  stubs: z.array(
    z.strictObject({
      path: z.string(),
      kind: z.enum(['folder', 'file']),
      bytes: z.number().int(),
      /** Which one it is, known once it was made. */
      identity: z.string().optional(),
    }),
  ),
  /** All that was to be mounted; missing in records of before. */
  guarded: z.array(z.string()).optional(),
})
type StubRecord = z.infer<typeof recordSchema>
type Stub = StubRecord['stubs'][number]

/**
 * Takes the free names and returns all that has to be mounted. What it takes is written down before, in the sandbox's
 * own folder, so that `releaseWorkspace` finds it whatever happens in between.
 */
export function guardWorkspace(
  sandboxFolder: string,
  { folder: workspace, identity }: InPlace,
  owner: HostUser | undefined,
): Guarded[] {
  using root = openFolder(workspace)
  if (folderIdentity(fstatSync(root.descriptor, { bigint: true })) !== identity)
    throw new CraikError('conflict', 'the workspace was replaced while Craik checked it')
  const known = new Set([...stubsOfOthers(sandboxFolder, workspace), ...readProtectedNames(sandboxFolder)])
  const repository = findRepository(root, known)
  const wanted = [
    // A file there names the real repository, which lies elsewhere and is not shown.
    repository?.isFile() ? { ...REPOSITORY, kind: 'file' as const, writable: false } : REPOSITORY,
    ...(repository?.isDirectory() ? IN_REPOSITORY : []),
    ...IN_WORKSPACE,
  ]
  const identities = new Map<string, string>()
  const stubs = wanted.flatMap((one): Stub[] => {
    const found = statPath(root, one)
    if (found !== undefined) {
      refuseUnusable(one, found)
      if (one.kind === 'folder' && !one.writable) refuseSecondNames(root, one.path)
      identities.set(one.path, fileIdentity(found))
    }
    const isFree = found === undefined || known.has(one.path)
    return isFree ? [{ path: one.path, kind: one.kind, bytes: Buffer.byteLength(one.neutral ?? '') }] : []
  })
  write(sandboxFolder, { workspace, stubs })
  const made = stubs.map((stub) => ({ ...stub, identity: take(root, stub, wanted, owner) }))
  for (const { path, identity } of made) identities.set(path, identity)
  write(sandboxFolder, { workspace, stubs: made, guarded: wanted.map(({ path }) => path) })
  // A repository that does not exist yet is a stub like any other: nothing can be made in it.
  return wanted.map(({ path, writable = false }) => ({
    path,
    writable: writable && repository !== undefined,
    identity: identities.get(path)!,
  }))
}

/** The names that were taken for a sandbox, whoever made what has them now. */
export function readProtectedNames(sandboxFolder: string): string[] {
  return read(sandboxFolder)?.stubs.map(({ path }) => path) ?? []
}

/** The names that are mounted over themselves in a sandbox that runs in place. */
export function readGuardedNames(sandboxFolder: string): readonly string[] {
  return read(sandboxFolder)?.guarded ?? []
}

/** Removes the names that were taken, as far as nobody used them since and no other sandbox needs them. */
export function releaseWorkspace(sandboxFolder: string): void {
  const record = read(sandboxFolder)
  if (record === undefined) return
  try {
    using root = openFolder(record.workspace)
    const needed = stubsOfOthers(sandboxFolder, record.workspace)
    for (const stub of record.stubs.toReversed()) if (!needed.has(stub.path)) removeStub(root, stub)
  } catch (error) {
    // The workspace itself is gone, and what was in it.
    if (!(error instanceof CraikError)) throw error
  }
  unlinkSync(join(sandboxFolder, STUBS))
}

/** The folder that holds a protected name: the workspace, or one in it that is no link. */
function within<T>(root: FolderHandle, path: string, use: (at: string) => T): T {
  if (!path.includes('/')) return use(root.at(path))
  using inner = openFolder(root.at(dirname(path)))
  return use(inner.at(basename(path)))
}

/** One that a sandbox only took the name of is none. */
function findRepository(root: FolderHandle, known: ReadonlySet<string>): BigIntStats | undefined {
  const found = statPath(root, REPOSITORY)
  const isStub =
    found?.isDirectory() && known.has(REPOSITORY.path) && readdirSync(root.at('.git')).length === 0
  return isStub ? undefined : found
}

/** What is in a folder that is not there is not there either. */
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
      hint: `move it out of the way, or ${COPY_INSTEAD}`,
    })
  }
  if (kind === 'file' && found.nlink > 1n) throw hasSecondName(path)
}

/** More than settings, hooks and submodules have, without their objects. */
const MAX_PROTECTED_ENTRIES = 50_000

/** A file in a protected folder could be changed by another name of it elsewhere in the workspace. */
function refuseSecondNames(root: FolderHandle, path: string): void {
  let entries = 0
  const walk = (outer: FolderHandle, name: string, shown: string): void => {
    using folder = openFolder(outer.at(name))
    for (const entry of readdirSync(folder.at('.'), { withFileTypes: true })) {
      const inner = `${shown}/${entry.name}`
      if (++entries > MAX_PROTECTED_ENTRIES)
        throw new CraikError('usage', `${path} in the workspace contains too many files to protect`, {
          hint: COPY_INSTEAD,
        })
      // Objects are named by their content, and git shares them between clones on one disk.
      if (entry.isDirectory() && entry.name !== 'objects') walk(folder, entry.name, inner)
      else if (entry.isFile() && lstatSync(folder.at(entry.name)).nlink > 1) throw hasSecondName(inner)
    }
  }
  if (!path.includes('/')) walk(root, path, path)
  else {
    using above = openFolder(root.at(dirname(path)))
    walk(above, basename(path), path)
  }
}

function hasSecondName(path: string): CraikError {
  return new CraikError(
    'usage',
    `${path} in the workspace has another hard link, through which it could be changed`,
    {
      hint: `replace it with a copy of it, or ${COPY_INSTEAD}`,
    },
  )
}

function take(
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
    hint: `find the program that changes it, or ${COPY_INSTEAD}`,
  })
}

/** A number alone is used again by the next file. */
export function fileIdentity({ ino, birthtimeNs }: BigIntStats): string {
  return `${ino}:${birthtimeNs}`
}

/** Undefined when there is one: another sandbox took the name before us. */
function makeFile(at: string, content: string, owner: HostUser | undefined): string | undefined {
  const descriptor = unlessThere(() => openSync(at, CREATE, 0o644))
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
 * Making a folder does not open it, and whoever may write there can put another one in its place first. So it is given
 * away only if it is ours and empty: then nobody gets what they could not have removed.
 */
function makeFolder(at: string, path: string, owner: HostUser | undefined): string | undefined {
  if (unlessThere(() => [mkdirSync(at, { mode: 0o755 })]) === undefined) return undefined
  using folder = openFolder(at)
  const stats = fstatSync(folder.descriptor, { bigint: true })
  if (owner !== undefined) {
    const isOurs = stats.uid === BigInt(process.geteuid?.() ?? -1)
    if (!isOurs || readdirSync(folder.at('.')).length > 0) throw replacedError(path)
    fchownSync(folder.descriptor, owner.uid, owner.gid)
  }
  return fileIdentity(stats)
}

function unlessThere<T>(make: () => T): T | undefined {
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
      // Fails by itself when something is in it.
      if (kind === 'folder' && found.isDirectory()) rmdirSync(at)
      // Its maker may have been killed before it was written to.
      const isUnused = found.size === BigInt(bytes) || (identity === undefined && found.size === 0n)
      if (kind === 'file' && found.isFile() && isUnused) unlinkSync(at)
    })
  } catch {
    // Somebody uses it: then it is theirs.
  }
}

/** Names that sandboxes beside this one took in the same workspace. */
function stubsOfOthers(sandboxFolder: string, workspace: string): ReadonlySet<string> {
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
