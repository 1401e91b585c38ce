/**
 * Builds the folder /opt/craik of every sandbox: an executable but unreadable Node, the sidecar's bundle with its
 * compile cache, settings for the shell and git, and git hooks. Craik creates it once per build and home, completely or
 * not at all. Sandboxes cannot write to it.
 */
import { createHash, randomBytes } from 'node:crypto'
import { constants, readFileSync, statSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { packageFile } from '../lib/package-files.ts'
import { quoteArgument } from '../lib/shlex.ts'

export interface Runtime {
  readonly digest: string
  readonly folder: string
}

export interface RuntimeOptions {
  /** The folder that contains the runtimes. */
  readonly cache: string
  /** Runs the sidecar once to fill the compile cache of the folder. An empty cache only makes every start slower. */
  readonly warm: (folder: string) => Promise<void>
  /** The program that runs the sidecar. The default is the Node of this process. */
  readonly node?: string
}

/**
 * With this mode, code of the same user can neither trace the sidecar nor read its memory. The kernel makes a process
 * undumpable when its program is unreadable.
 */
const NODE_MODE = 0o111
const BUNDLE = ['sidecar.mjs', 'relay.mjs', 'pty.node'] as const
/** The targets of links in /etc, relative to /opt/craik. The files are in `image/inside/`, like the hooks. */
export const INSIDE_ETC = {
  '/etc/gitconfig': 'etc/gitconfig',
  '/etc/profile': 'etc/profile',
  '/etc/bash.bashrc': 'etc/bash.bashrc',
} as const
const HOOKS = ['git-hooks/pre-push'] as const
const COMPILE_CACHE = 'compile-cache'
const MANIFEST = 'manifest.json'

/** A temporary folder that is older than this was left by a process that died. */
const ABANDONED_AFTER_MS = 10 * 60_000

const manifestSchema = z.strictObject({
  digest: z.string(),
  nodeBytes: z.number().int(),
  files: z.record(z.string(), z.string()),
})
type Manifest = z.infer<typeof manifestSchema>

export interface RuntimeFile {
  readonly name: string
  /** Its path on the host. */
  readonly path: string
  readonly mode: number
}

/** Returns the part of the runtime that does not depend on its location: everything except the compile cache. */
export function runtimeFiles(node = process.execPath): readonly RuntimeFile[] {
  return [{ name: 'node', path: node, mode: NODE_MODE }, ...ownFiles()]
}

/**
 * Returns the runtime of this build. Creates it if it is missing or damaged. Several processes may call this at the
 * same time.
 */
export async function prepareRuntime(options: RuntimeOptions): Promise<Runtime> {
  const node = options.node ?? process.execPath
  const wanted = manifestOf(node)
  const all = runtimesFolder(options.cache)
  const folder = join(all, wanted.digest)
  if (await isWhole(folder, wanted)) return { digest: wanted.digest, folder }
  await mkdir(all, { recursive: true, mode: 0o700 })
  const temporary = join(all, `.${wanted.digest}.${randomBytes(6).toString('hex')}`)
  try {
    await fill(temporary, node, wanted, options.warm)
    await publish(temporary, folder, wanted)
  } catch (error) {
    throw translateError(error, all)
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
  return { digest: wanted.digest, folder }
}

/** Removes runtimes of other builds that no sandbox uses, and abandoned partial copies. */
export async function pruneRuntimes(cache: string, inUse: ReadonlySet<string>): Promise<void> {
  const all = runtimesFolder(cache)
  for (const name of await readdir(all).catch(() => [])) {
    const path = join(all, name)
    const isSpare = name.startsWith('.')
      ? Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now()) > ABANDONED_AFTER_MS
      : !inUse.has(name)
    if (isSpare) await rm(path, { recursive: true, force: true })
  }
}

function runtimesFolder(cache: string): string {
  return join(cache, 'runtime')
}

/**
 * Returns the content of this build's runtime. Node is identified by version, size and time, because reading all of it
 * takes long.
 */
function manifestOf(node: string): Manifest {
  const { size, mtimeMs } = statSync(node)
  const files: Record<string, string> = {}
  for (const { name, path } of ownFiles()) files[name] = sha256(readOwn(name, path))
  const identity = { node: [process.version, process.arch, size, Math.trunc(mtimeMs)], files }
  return { digest: sha256(JSON.stringify(identity)).slice(0, 32), nodeBytes: size, files }
}

function readOwn(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new CraikError('unavailable', `${name}, which sandboxes need, is not built`, {
      hint: 'npm run prepare',
      cause,
    })
  }
}

/** Returns all files except Node. */
function ownFiles(): readonly RuntimeFile[] {
  const bundle = BUNDLE.map((name) => ({ name, from: `build/sidecar/${name}`, mode: 0o444 }))
  const etc = Object.values(INSIDE_ETC).map((name) => ({ name, from: `image/inside/${name}`, mode: 0o444 }))
  const hooks = HOOKS.map((name) => ({ name, from: `image/inside/${name}`, mode: 0o555 }))
  return [...bundle, ...etc, ...hooks].map(({ name, from, mode }) => ({
    name,
    mode,
    path: fileURLToPath(packageFile(from)),
  }))
}

async function fill(
  folder: string,
  node: string,
  manifest: Manifest,
  warm: RuntimeOptions['warm'],
): Promise<void> {
  await mkdir(folder, { mode: 0o755 })
  await copyFile(node, join(folder, 'node'), constants.COPYFILE_FICLONE)
  await chmod(join(folder, 'node'), NODE_MODE)
  for (const { name, path, mode } of ownFiles()) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    // The umask may have removed these bits.
    await chmod(dirname(join(folder, name)), 0o755)
    await copyFile(path, join(folder, name))
    await chmod(join(folder, name), mode)
  }
  await mkdir(join(folder, COMPILE_CACHE))
  await warm(folder).catch(() => {})
  await openToReaders(join(folder, COMPILE_CACHE))
  await writeFile(join(folder, MANIFEST), JSON.stringify(manifest), { mode: 0o444 })
  // The umask may have removed these bits. Other users reach the folder only through the mounts of their sandbox.
  await chmod(folder, 0o755)
}

async function openToReaders(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await openToReaders(path)
    else await chmod(path, 0o444)
  }
}

/** Moves the runtime into place. The first process wins. A damaged runtime is moved aside. */
async function publish(temporary: string, folder: string, manifest: Manifest): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await rename(temporary, folder)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if ((code !== 'ENOTEMPTY' && code !== 'EEXIST') || attempt >= 3) throw error
      if (await isWhole(folder, manifest)) return
      const aside = `${temporary}.damaged`
      await rename(folder, aside).catch(() => {})
      await rm(aside, { recursive: true, force: true })
    }
  }
}

async function isWhole(folder: string, wanted: Manifest): Promise<boolean> {
  try {
    const found = manifestSchema.parse(JSON.parse(await readFile(join(folder, MANIFEST), 'utf8')))
    if (JSON.stringify(found) !== JSON.stringify(wanted)) return false
    const node = await stat(join(folder, 'node'))
    if (node.size !== wanted.nodeBytes || (node.mode & 0o777) !== NODE_MODE) return false
    for (const [name, digest] of Object.entries(wanted.files)) {
      if (sha256(await readFile(join(folder, name))) !== digest) return false
    }
    return true
  } catch {
    return false
  }
}

function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}

function translateError(error: unknown, folder: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (error instanceof CraikError || code === undefined) return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError(
      'disk_full',
      `no space left in ${folder} for the programs that every sandbox needs`,
      {
        cause: error,
      },
    )
  return new CraikError(
    'home_unwritable',
    `cannot copy the programs that every sandbox needs to ${folder} (${code})`,
    {
      hint: `check the owner and mode of that folder:  ls -ld ${quoteArgument(folder)}`,
      cause: error,
    },
  )
}
