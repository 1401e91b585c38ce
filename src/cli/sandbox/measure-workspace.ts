/** The folder that a new sandbox gets a copy of: looked through first, so that too large a copy never begins. */
import type { Dirent } from 'node:fs'
import { lstat, readdir, realpath } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { resolveWorkspace } from '../../sandboxes/backends/process/workspace.ts'
import type { CliContext } from '../context.ts'
import { formatBytes } from './amounts.ts'

/** More files than this is no project. */
const MAX_ENTRIES = 2_000_000

export interface CopySource {
  readonly folder: string
  readonly files: number
  readonly bytes: number
  /** Craik's own home, where the folder holds it. */
  readonly exclude: (path: string) => boolean
}

export interface CopyLimit {
  readonly maxBytes: number
  /** The options that would let so much through. */
  readonly allow: (bytes: number) => string
}

/** Refuses a folder that holds more than a project, and one that is larger than its limit. */
export async function measureWorkspace(
  context: CliContext,
  requested: string,
  limit: CopyLimit,
  progress: (entries: number) => Promise<void>,
): Promise<CopySource> {
  const { folder } = resolveWorkspace(await realFolder(requested), context.home.root, context.environment)
  return measureFolder(context, folder, limit, progress)
}

/** What is in a folder, without Craik's own home where that is part of it. Links are not followed. */
export async function measureFolder(
  context: CliContext,
  folder: string,
  { maxBytes, allow }: CopyLimit,
  progress: (entries: number) => Promise<void>,
): Promise<CopySource> {
  const own = relative(folder, await realpath(context.home.root).catch(() => context.home.root))
  const exclude = (path: string) => path === own || path.startsWith(`${own}/`)
  if (own === '' || !own.split('/').some((part) => part !== '..'))
    throw new CraikError('usage', 'cannot copy Craik’s own home', { hint: 'choose another folder' })
  let files = 0
  let bytes = 0
  let entries = 0
  const waiting = [folder]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const entry of await entriesOf(at)) {
      const path = join(at, entry.name)
      if (exclude(relative(folder, path))) continue
      if (++entries > MAX_ENTRIES) throw tooMany()
      if (entries % 256 === 0) await progress(entries)
      if (entry.isDirectory()) waiting.push(path)
      if (!entry.isFile()) continue
      files++
      bytes += await sizeOf(path)
    }
  }
  // Looked through to its end all the same, so that the answer says what would be enough.
  if (bytes > maxBytes)
    throw new CraikError(
      'too_large',
      `the folder has ${formatBytes(bytes)}, more than the limit of ${formatBytes(maxBytes)}`,
      { hint: `choose a smaller folder, or allow more: ${allow(bytes)}` },
    )
  return { folder, files, bytes, exclude }
}

async function realFolder(requested: string): Promise<string> {
  try {
    return await realpath(resolve(requested))
  } catch (error) {
    throw new CraikError('usage', 'cannot open the workspace folder', {
      hint: 'choose an existing folder:  --workspace .',
      cause: error,
    })
  }
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true })
  } catch (error) {
    // Gone meanwhile. What may not be read is told when it is packed.
    if (['ENOENT', 'EACCES', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await lstat(path).catch(() => undefined))?.size ?? 0
}

function tooMany(): CraikError {
  return new CraikError(
    'too_large',
    `the folder contains more than ${MAX_ENTRIES.toLocaleString('en')} files`,
    {
      hint: 'choose a smaller folder',
    },
  )
}
