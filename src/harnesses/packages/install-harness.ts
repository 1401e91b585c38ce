/**
 * Installs the agent CLIs on the host, once for each recipe. npm fetches exactly the packages in the lock file. Craik
 * removes the files that no sandbox needs and makes the rest read-only. An installation exists completely or not at
 * all. Craik replaces a damaged one.
 */
import { chmod, lstat, mkdir, mkdtemp, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import { ensureCacheOfHome } from '../../lib/user-cache.ts'
import { waitForFileLock } from '../../lib/wait-for-lock.ts'
import { type OnProgress, progressWithin } from '../../sandboxes/backends/docker/image/image-progress.ts'
import { HARNESS_MANIFEST, harnessesFolder } from '../../sandboxes/harness-package.ts'
import { removeTree } from '../../sandboxes/remove-tree.ts'
import { type PackageName, type PackageSource, readPackage } from './harness-catalogue.ts'
import { describeTree, isInstalled, isIntact } from './harness-manifest.ts'
import { npmInstall } from './npm.ts'
import { pruneTree } from './prune-tree.ts'
import { wrapperOf } from './wrappers.ts'

export interface InstallOptions {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
  /** Folders of the host that sandboxes can write to. */
  readonly mounted: () => Promise<readonly string[]>
  readonly signal?: AbortSignal
  readonly progress?: OnProgress
  /** True to check every byte of the programs and whether a file is missing. Otherwise a quick check is enough. */
  readonly thorough?: boolean
}

export interface InstalledHarness {
  readonly name: PackageName
  readonly version: string
  readonly id: string
  readonly folder: string
  /** True when this call installed it. */
  readonly made: boolean
}

const WORK = 'work-'

/** Returns the harnesses in the order of the names, and installs those that are missing. */
export async function ensureHarnesses(
  names: readonly PackageName[],
  options: InstallOptions,
): Promise<readonly InstalledHarness[]> {
  const { progress = () => {} } = options
  const installed: InstalledHarness[] = []
  for (const [index, name] of names.entries())
    installed.push(
      await ensureOne(readPackage(name), {
        ...options,
        signal: options.signal ?? new AbortController().signal,
        progress: progressWithin(progress, index / names.length, (index + 1) / names.length),
      }),
    )
  return installed
}

type Options = InstallOptions & Required<Pick<InstallOptions, 'signal' | 'progress'>>

async function ensureOne(source: PackageSource, options: Options): Promise<InstalledHarness> {
  const { craikHome, signal, progress, thorough = false } = options
  const all = harnessesFolder(options)
  const folder = join(all, source.id)
  const { name, version, id } = source
  const isGood = () => (thorough ? isIntact(folder, source) : isInstalled(folder, source))
  if (await isGood()) return { name, version, id, folder, made: false }
  try {
    ensurePrivateFolder(craikHome, 'home')
    ensureCacheOfHome(craikHome, options.environment)
    await mkdir(all, { recursive: true, mode: 0o755 })
    // The umask may have removed permissions. Other users reach this folder only through the mounts of their sandbox.
    await chmod(all, 0o755)
    using _lock = await waitForFileLock(join(all, 'lock'), 'harnesses lock', {
      doing: 'installs a harness',
      signal,
      onWait: () => progress({ part: 0, doing: 'waiting for another craik process that installs a harness' }),
    })
    if (await isGood()) return { name, version, id, folder, made: false }
    await removeAbandoned(all)
    const work = await mkdtemp(join(all, WORK))
    try {
      await fill(work, source, options)
      signal.throwIfAborted()
      // Removes a damaged installation, if there is one. Programs in a sandbox keep the files that they have open.
      await removeTree(folder)
      await rename(work, folder)
    } finally {
      await removeTree(work)
    }
    return { name, version, id, folder, made: true }
  } catch (error) {
    throw translateError(error, name)
  }
}

async function fill(folder: string, source: PackageSource, options: Options): Promise<void> {
  const { environment, signal, progress } = options
  const { name, version, architecture, settings, locked } = source
  for (const [file, content] of Object.entries(source.files)) await writeFile(join(folder, file), content)
  let fetched = 0
  const reportProgress = () =>
    progress({ part: 0.9 * Math.min(1, fetched / locked), doing: `fetching ${name} ${version}` })
  reportProgress()
  await npmInstall(architecture, {
    folder,
    environment,
    signal,
    mounted: await options.mounted(),
    onFetched() {
      fetched += 1
      reportProgress()
    },
  })
  progress({ part: 0.9, doing: `finishing ${name} ${version}` })
  await mkdir(join(folder, 'bin'))
  for (const [program, how] of Object.entries(settings.programs))
    await writeFile(join(folder, 'bin', program), wrapperOf(how, architecture), { mode: 0o755 })
  for (const [file, content] of Object.entries(source.own)) await writeFile(join(folder, file), content)
  for (const [file, lines] of Object.entries(settings.added))
    await writeFile(join(folder, file), `${lines.join('\n')}\n`)
  const size = await pruneTree(folder, settings.pruned, signal)
  const manifest = await describeTree(folder, source, size)
  await writeFile(join(folder, HARNESS_MANIFEST), JSON.stringify(manifest))
  await makeReadOnly(folder)
}

/**
 * Lets any user of a sandbox read and run the files. Sandboxes cannot write here, because the mount is read-only. The
 * folders stay writable for their owner, who can then remove them.
 */
async function makeReadOnly(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isDirectory()) await chmod(path, 0o755)
    else await chmod(path, (await isProgram(path)) ? 0o555 : 0o444)
  }
  await chmod(folder, 0o755)
}

async function isProgram(path: string): Promise<boolean> {
  return ((await lstat(path)).mode & 0o100) !== 0
}

/**
 * Removes the work folders of killed processes. The caller holds the lock and has no work folder yet, so each one is
 * abandoned.
 */
export async function removeAbandoned(all: string): Promise<void> {
  for (const name of await readdir(all)) if (name.startsWith(WORK)) await removeTree(join(all, name))
}

function translateError(error: unknown, name: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (error instanceof CraikError || code === undefined || code === 'ABORT_ERR') return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `no space left to install ${name}`, { cause: error })
  return new CraikError('home_unwritable', `cannot install ${name} (${code})`, { cause: error })
}
