/** Measures the folder that a new sandbox gets a copy of, so that a copy that is too large never begins. */
import type { Dirent } from 'node:fs'
import { lstat, readdir, realpath } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { resolveWorkspace } from '../../sandboxes/backends/process/workspace.ts'
import type { CliContext } from '../context.ts'
import { formatBytes } from './amounts.ts'

/** A folder with more files is not a project. */
const MAX_ENTRIES = 2_000_000

export interface CopySource {
  readonly folder: string
  readonly files: number
  readonly bytes: number
  /** Matches Craik's own home, if the folder contains it. */
  readonly exclude: (path: string) => boolean
}

export interface CopyLimit {
  readonly maxBytes: number
  /** Returns the options that would allow this size. */
  readonly allow: (bytes: number) => string
}

/** Refuses a folder that contains more than a project, and one that is larger than its limit. */
export async function measureWorkspace(
  context: CliContext,
  requested: string,
  limit: CopyLimit,
  progress: (entries: number) => Promise<void>,
): Promise<CopySource> {
  const { folder } = resolveWorkspace(await realFolder(requested), context.home.root, context.environment)
  return measureFolder(context, folder, limit, progress)
}

/** Measures a folder without Craik's own home, if that is part of it. Does not follow links. */
export async function measureFolder(
  context: CliContext,
  folder: string,
  { maxBytes, allow }: CopyLimit,
  progress: (entries: number) => Promise<void>,
): Promise<CopySource> {
  const own = relative(folder, await realpath(context.home.root).catch(() => context.home.root))
  const exclude = (path: string) => path === own || path.startsWith(`${own}/`)
  if (own === '' || !own.split('/').some((part) => part !== '..'))
    throw new CraikError('usage', `cannot copy ${folder}: it is a part of Craik’s own home`, {
      hint: 'choose another folder',
    })
  let files = 0
  let bytes = 0
  let entries = 0
  const waiting = [folder]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const entry of await entriesOf(at)) {
      const path = join(at, entry.name)
      if (exclude(relative(folder, path))) continue
      if (++entries > MAX_ENTRIES) throw tooMany(folder)
      if (entries % 256 === 0) await progress(entries)
      if (entry.isDirectory()) waiting.push(path)
      if (!entry.isFile()) continue
      files++
      bytes += await sizeOf(path)
    }
  }
  // Measures the whole folder before it fails, so that the hint names a sufficient limit.
  if (bytes > maxBytes)
    throw new CraikError(
      'too_large',
      `the folder ${folder} has ${formatBytes(bytes)}, more than the limit of ${formatBytes(maxBytes)}`,
      { hint: `choose a smaller folder, or allow more: ${allow(bytes)}` },
    )
  return { folder, files, bytes, exclude }
}

async function realFolder(requested: string): Promise<string> {
  try {
    return await realpath(resolve(requested))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CraikError('usage', `cannot open the workspace folder ${requested} (${code})`, {
      hint: 'choose an existing folder:  --workspace .',
      cause: error,
    })
  }
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true })
  } catch (error) {
    // The folder may be gone by now. Packing reports a folder that cannot be read.
    if (['ENOENT', 'EACCES', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await lstat(path).catch(() => undefined))?.size ?? 0
}

function tooMany(folder: string): CraikError {
  return new CraikError(
    'too_large',
    `the folder ${folder} contains more than ${MAX_ENTRIES.toLocaleString('en')} files`,
    {
      hint: 'choose a smaller folder',
    },
  )
}
