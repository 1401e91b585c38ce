/**
 * Reads transcripts from a folder of the host that has the layout of a home folder. Folders are kept open and entered
 * by name, and links are never followed, because a sandbox may write to the folders below.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises'
import { CraikError } from '../errors.ts'
import { OpenFolder } from '../lib/safe-tar/open-folder.ts'
import { type TranscriptFile, type TranscriptSource, UnreadableTranscript } from './source.ts'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'

export interface HomeFolderOptions {
  readonly signal: AbortSignal
  /** Receives the path, relative to the home, of an entry that is not entered, such as a link. */
  readonly onProblem?: (path: string, problem: string) => void
}

const CHUNK_BYTES = 256 * 1024
const A_LINK = 'is a symbolic link; Craik does not follow it'

/** The caller chooses the path of the home itself, so it can be a link. */
export function homeFolder(home: string, options: HomeFolderOptions): TranscriptSource {
  return {
    async *list(folder, depth) {
      const held = await enterAll(home, folder.split('/'), options)
      if (held === undefined) return
      yield* listFiles(held, folder, depth, options)
    },
    async *read(path, maxBytes) {
      const names = path.split('/')
      const folder = await enterAll(home, names.slice(0, -1), {})
      if (folder === undefined) return
      let file: FileHandle | undefined
      try {
        file = await openRegular(folder.at(names.at(-1)!))
        if (file !== undefined) yield* contentOf(file, maxBytes, options.signal)
      } finally {
        await file?.close()
        await folder.close()
      }
    },
  }
}

async function enterAll(
  home: string,
  names: readonly string[],
  { onProblem }: Pick<HomeFolderOptions, 'onProblem'>,
): Promise<OpenFolder | undefined> {
  let at: OpenFolder | undefined = await openHome(home)
  for (const [i, name] of names.entries()) {
    const inner = await enter(at, name, names.slice(0, i + 1).join('/'), onProblem)
    await at.close()
    if (inner === undefined) return undefined
    at = inner
  }
  return at
}

/** Returns undefined when the folder does not exist or cannot be entered. */
async function enter(
  folder: OpenFolder,
  name: string,
  path: string,
  onProblem: HomeFolderOptions['onProblem'],
): Promise<OpenFolder | undefined> {
  try {
    return await folder.enter(name)
  } catch (error) {
    const found = await lstat(folder.at(name)).catch(() => undefined)
    if (found?.isSymbolicLink()) onProblem?.(path, A_LINK)
    else if (found?.isDirectory()) onProblem?.(path, unreadable(error))
    return undefined
  }
}

async function openHome(home: string): Promise<OpenFolder> {
  try {
    return await OpenFolder.open(home)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('not_found', `cannot search for transcripts in ${home}: ${why(code)}`, {
      hint: 'use a folder with the layout of a home folder:  craik transcripts list --home DIR',
      cause,
    })
  }
}

function why(code: string | undefined): string {
  if (code === 'ENOENT') return 'it does not exist'
  return code === 'ENOTDIR' ? 'it is not a folder' : String(code)
}

function unreadable(error: unknown): string {
  return `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`
}

function unfitness(found: Stats): string {
  if (found.isFIFO()) return 'is a pipe'
  return found.isSocket() ? 'is a socket' : 'is a device'
}

async function* listFiles(
  folder: OpenFolder,
  path: string,
  depth: number,
  options: HomeFolderOptions,
): AsyncGenerator<TranscriptFile> {
  try {
    let looked = 0
    for await (const { name } of await opendir(folder.path)) {
      options.signal.throwIfAborted()
      if (looked++ >= TRANSCRIPT_LIMITS.folderEntries) {
        const most = TRANSCRIPT_LIMITS.folderEntries.toLocaleString('en')
        options.onProblem?.(path, `contains more than ${most} entries`)
        return
      }
      const below = `${path}/${name}`
      const found = await lstat(folder.at(name)).catch(() => undefined)
      if (found === undefined) continue
      const file = { path: below, bytes: found.size, modifiedAtMs: Math.floor(found.mtimeMs) }
      if (found.isFile()) yield file
      else if (found.isSymbolicLink()) options.onProblem?.(below, A_LINK)
      else if (!found.isDirectory()) yield { ...file, unreadableReason: unfitness(found) }
      else if (depth > 0) {
        const inner = await enter(folder, name, below, options.onProblem)
        if (inner !== undefined) yield* listFiles(inner, below, depth - 1, options)
      }
    }
  } finally {
    await folder.close()
  }
}

/** Opens without blocking, because the file may have been replaced by a FIFO. */
async function openRegular(path: string): Promise<FileHandle | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY
  const file = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EACCES' || error.code === 'EPERM' || error.code === 'EIO')
      throw new UnreadableTranscript(unreadable(error), { cause: error })
    return undefined
  })
  if (file === undefined || (await file.stat()).isFile()) return file
  await file.close()
  return undefined
}

async function* contentOf(file: FileHandle, maxBytes: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (let at = 0; at < maxBytes; ) {
    signal.throwIfAborted()
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, maxBytes - at))
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}
