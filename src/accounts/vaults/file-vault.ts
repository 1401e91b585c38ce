/** A login in a file of the user. It is read through links and replaced atomically, with its owner and mode kept. */
import { createHash, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, type FileHandle, open, realpath, rename, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Vault, VaultProblem, type VaultSnapshot } from './vault.ts'

export const MAX_LOGIN_BYTES = 1024 * 1024
const REWRITE_MS = 50
/** Larger than most logins. */
const PIECE_BYTES = 16 * 1024

/**
 * Links are followed: the folder is the user's own, and dotfile managers link it. An attacker who could place a link
 * there could also place the file. The target must be a regular file of this user (or root's). The target itself is
 * replaced, so that a link stays a link.
 */
export function fileVault(path: string, source: string): Vault {
  return {
    source,
    key: `file:${path}`,
    async read() {
      const file = await readHostFile(path, source)
      if (file === undefined || file.snapshot.text.trim() !== '') return file?.snapshot
      // Some programs empty their file before they write it again.
      await sleep(REWRITE_MS)
      const again = (await readHostFile(path, source))?.snapshot
      return again?.text.trim() === '' ? undefined : again
    },
    async unwritable() {
      try {
        await access(dirname(await realpath(path)), constants.W_OK | constants.X_OK)
        return undefined
      } catch (error) {
        return `the folder of ${source} cannot be written (${codeOf(error)})`
      }
    },
    replace: (expected, text) => replaceHostFile(path, source, expected, text),
  }
}

interface HostFile {
  readonly snapshot: VaultSnapshot
  readonly realPath: string
  readonly mode: number
  readonly uid: number
  readonly gid: number
}

async function readHostFile(path: string, source: string): Promise<HostFile | undefined> {
  try {
    const realPath = await realpath(path)
    // Non-blocking, because opening a named pipe would otherwise wait for a writer.
    await using file = await open(realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const { dev, ino, mode, uid, gid, isFile } = await statOf(file)
    if (!isFile) throw new VaultProblem(`${source} is not a regular file`, `inspect it:  ls -l ${source}`)
    if (uid !== process.geteuid?.() && uid !== 0)
      throw new VaultProblem(`${source} belongs to another user (uid ${uid})`, 'run craik as that user')
    const bytes = await readAtMost(file, MAX_LOGIN_BYTES + 1)
    if (bytes.length > MAX_LOGIN_BYTES)
      throw new VaultProblem(`${source} is larger than 1 MiB`, 'log in again with its own program')
    const text = bytes.toString('utf8')
    const digest = createHash('sha256').update(bytes).digest('hex')
    return { snapshot: { text, identity: `${dev}:${ino}:${digest}` }, realPath, mode, uid, gid }
  } catch (error) {
    if (error instanceof VaultProblem) throw error
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new VaultProblem(`${source} cannot be read (${code})`, `inspect it:  ls -l ${source}`)
  }
}

/**
 * Readers see either the old or the new content. Between the last check and the rename, another writer's change could
 * be lost for some microseconds. No system call closes that window.
 */
async function replaceHostFile(
  path: string,
  source: string,
  expected: VaultSnapshot,
  text: string,
): Promise<boolean> {
  const before = await readHostFile(path, source)
  if (before?.snapshot.identity !== expected.identity) return false
  const folder = dirname(before.realPath)
  const temporary = join(folder, `.${basename(before.realPath)}.${randomBytes(6).toString('hex')}.craik`)
  let isPlaced = false
  try {
    await writeLike(temporary, text, before)
    const now = await readHostFile(path, source)
    if (now?.snapshot.identity !== expected.identity || now.realPath !== before.realPath) return false
    await rename(temporary, before.realPath)
    isPlaced = true
    await syncFolder(folder)
    return true
  } finally {
    if (!isPlaced) await unlink(temporary).catch(() => {})
  }
}

async function writeLike(path: string, text: string, { mode, uid, gid }: HostFile): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  await using file = await open(path, flags, 0o600)
  const made = await file.stat()
  if (made.uid !== uid || made.gid !== gid) await file.chown(uid, gid)
  await file.writeFile(text)
  // The umask may have removed permissions that the user's file had.
  await file.chmod(mode)
  await file.sync()
}

async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  await handle.sync().catch((error: unknown) => {
    // Some file systems cannot sync folders, and report EINVAL.
    if (codeOf(error) !== 'EINVAL') throw error
  })
}

async function statOf(file: FileHandle) {
  const stats = await file.stat({ bigint: true })
  return {
    dev: stats.dev,
    ino: stats.ino,
    mode: Number(stats.mode) & 0o7777,
    uid: Number(stats.uid),
    gid: Number(stats.gid),
    isFile: stats.isFile(),
  }
}

/** Reads to the end of the file, because it may grow after a look at its size. */
async function readAtMost(file: FileHandle, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  while (length < maxBytes) {
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, maxBytes - length))
    const { bytesRead } = await file.read(piece, 0, piece.length)
    if (bytesRead === 0) break
    pieces.push(piece.subarray(0, bytesRead))
    length += bytesRead
  }
  return Buffer.concat(pieces)
}

/** A recently changed file may change again within the same tick of the file system's clock. */
const SETTLED_AFTER_MS = 2_000

/** Returns a different stamp whenever a file may have changed, and `undefined` while a file is too young to tell. */
export async function fileStamp(paths: readonly string[], nowMs: number): Promise<string | undefined> {
  const parts: string[] = []
  for (const path of paths) {
    try {
      const stats = await stat(path, { bigint: true })
      if (nowMs - Number(stats.mtimeMs) < SETTLED_AFTER_MS) return undefined
      parts.push([stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':'))
    } catch (error) {
      parts.push(codeOf(error))
    }
  }
  return parts.join('|')
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error'
}
