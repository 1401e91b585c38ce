/** Reads files that the user names on the command line (keys and checkpoints), and the trusted keys of this home. */
import type { KeyObject } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { CraikError } from '../../errors.ts'
import { parseVkey } from '../../receipts/verifier/signed-notes.ts'
import type { CliContext } from '../context.ts'

const MAX_BYTES = 64 * 1024
const CHUNK_BYTES = 1 << 20
/** Otherwise, opening a pipe without a writer would wait forever and ignore Ctrl-C. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK

/** Reads a regular file of at most 64 KiB. */
export function readSmallFile(path: string, what: string): string {
  let file: number
  try {
    file = openSync(path, READ)
  } catch (error) {
    throw unreadable(path, what, error)
  }
  try {
    if (!fstatSync(file).isFile()) throw irregular(path, what, 'save it to a file first')
    // The file may have another size than `stat` reports, or grow. So this counts the bytes that it reads.
    const buffer = Buffer.alloc(MAX_BYTES + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null)
    if (length > MAX_BYTES)
      throw new CraikError('too_large', `${what} is larger than ${MAX_BYTES} bytes: ${path}`, {
        hint: 'check the file name',
      })
    return buffer.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

/** Opens a regular file of any size, to be read with `fileChunks`. */
export async function openRegularFile(path: string, what: string): Promise<FileHandle> {
  const file = await open(path, READ).catch((error) => Promise.reject(unreadable(path, what, error)))
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw irregular(path, what, 'pipe it in with -, or save it to a file first')
}

/** Reads the file from its first byte in each call. It reads by position, so the descriptor can be read again. */
export async function* fileChunks(file: FileHandle): AsyncGenerator<Buffer> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, position)
    if (bytesRead === 0) return
    position += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function unreadable(path: string, what: string, error: unknown): CraikError {
  const { code } = error as NodeJS.ErrnoException
  return new CraikError('usage', `cannot read ${what}: ${path} (${code})`, {
    hint: 'check the file name',
    cause: error,
  })
}

function irregular(path: string, what: string, hint: string): CraikError {
  return new CraikError('usage', `${what} is not a regular file: ${path}`, { hint })
}

/** Reads one key from each line. */
export function readKeyFile(path: string): string[] {
  const lines = readSmallFile(path, 'the public key')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (lines.length === 0 || lines.some((line) => parseVkey(line) === undefined)) {
    throw new CraikError('usage', `${path} does not contain the public key of a log`, {
      hint: 'print the key, a line such as craik.local/…+1a2b3c4d+AbC…:  craik receipts key',
    })
  }
  return lines
}

/**
 * Returns the trusted keys of the live log: the given key, or this home's own keys, oldest first. They come from the
 * key files. The database only determines their order.
 */
export async function readTrustedKeys(context: CliContext, publicKey: string | undefined): Promise<Trusted> {
  if (publicKey !== undefined) return { vkeys: readKeyFile(publicKey) }
  const { loadLogKeys, refuseOrphanedKey } = await import('../../receipts/log-keys.ts')
  const store = await context.store()
  const recorded = await store.read((tables) => tables.logKeys.list())
  if (recorded.length === 0) refuseOrphanedKey(context.home)
  const all = recorded.map(({ kid }) => loadLogKeys(context.home, kid))
  return {
    vkeys: all.map(({ vkey }) => vkey),
    macKey: (kid) => all.find((keys) => keys.kid === kid)?.macKey,
  }
}

interface Trusted {
  readonly vkeys: readonly string[]
  readonly macKey?: (kid: string) => KeyObject | undefined
}
