/**
 * Copies from the host into a sandbox: a file completely or not at all, a folder as an archive that is unpacked there.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, open } from 'node:fs/promises'
import { basename, posix, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import { packFolder } from '../../lib/safe-tar/pack.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import type { FileBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { tarIn, writeFile } from '../../sdk/transfer.ts'
import type { CliContext } from '../context.ts'
import { allowCopy, formatBytes } from './amounts.ts'
import type { CopySpec } from './copy-spec.ts'
import { ErrorLines, giveUpJob, jobFailure } from './job-failure.ts'
import type { CopySource } from './measure-workspace.ts'
import { TransferBar } from './transfer-bar.ts'

const CHUNK_BYTES = 256 * 1024

export interface FolderCopy {
  readonly files: number
  readonly bytes: number
  readonly skipped: readonly string[]
  readonly skippedCount: number
}

/** Skips sockets, pipes and devices. Links stay links. */
export async function copyFolderIn(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  path: string,
  source: CopySource,
): Promise<FolderCopy> {
  const { signal } = context
  const { archive, report } = await packFolder(source.folder, { signal, exclude: source.exclude })
  const complaints = new ErrorLines()
  using bar = new TransferBar(context, 'copying', source.bytes)
  bar.watch(() => report().bytes)
  const jobId = newId('job', context.clock.nowMs())
  let isBegun = false
  const { result } = await tarIn(client, sandbox, path, archive, {
    jobId,
    signal,
    onStarted: () => {
      isBegun = true
    },
    onStdout: complaints.push,
    onStderr: complaints.push,
  }).catch(async (error) => {
    await giveUpJob(client, sandbox, jobId, !isBegun && signal.aborted)
    throw error
  })
  const failure = jobFailure('unpacking in the sandbox', sandbox, result, complaints)
  if (failure !== undefined) throw failure
  const { files, bytes, skipped, skippedCount } = report()
  return { files, bytes, skippedCount, skipped: skipped.map(({ path, reason }) => `${path} (${reason})`) }
}

/** Returns the path of the copy in the sandbox. */
export async function copyFileIn(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  { local, inside }: CopySpec,
  maxBytes: number,
): Promise<{ readonly to: string; readonly bytes: number }> {
  const { signal } = context
  const to = await insideName(client, sandbox, inside, basename(resolve(local)), signal)
  await using file = await openLocal(local)
  const stats = await file.stat()
  if (!stats.isFile()) throw notCopied(local)
  if (stats.size > maxBytes)
    throw new CraikError('too_large', `the file ${local} is larger than ${formatBytes(maxBytes)}`, {
      hint: `allow more: ${allowCopy(stats.size)}`,
    })
  using bar = new TransferBar(context, 'copying', stats.size)
  const source = {
    bytes: stats.size,
    mode: stats.mode & 0o777,
    open: (start: number) => Readable.from(contentOf(file, start), { objectMode: false }),
  }
  await writeFile(client, sandbox, to, source, { signal, onProgress: (bytes) => bar.set(bytes) }).catch(
    (error) => {
      throw error instanceof CraikError && error.code === 'not_found' ? noFolder(sandbox, to, error) : error
    },
  )
  return { to, bytes: stats.size }
}

/**
 * Reads by position, not through a stream of the handle. Such a stream closes the handle when it is destroyed, and then
 * the copy could not continue.
 */
async function* contentOf(file: FileHandle, start: number): AsyncGenerator<Buffer> {
  for (let at = start; ; ) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}

async function openLocal(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    throw new CraikError('usage', `cannot read the file ${path} (${(error as NodeJS.ErrnoException).code})`, {
      hint: 'choose a file that you can read',
      cause: error,
    })
  }
}

/** Returns whether the source on the host is a file or a folder. Does not follow links. */
export async function kindOfLocal(path: string): Promise<'file' | 'folder'> {
  const found = await lstat(resolve(path)).catch((cause) => {
    throw new CraikError('not_found', `no such file or folder on this machine: ${path}`, {
      hint: 'check the path, or write a path in a sandbox as ID:PATH',
      cause,
    })
  })
  if (found.isDirectory()) return 'folder'
  if (found.isFile()) return 'file'
  if (found.isSymbolicLink())
    throw new CraikError('usage', `refusing to follow the symbolic link ${path}: its target could change`, {
      hint: `use the path of the target:  readlink -f ${quoteArgument(path)}`,
    })
  throw notCopied(path)
}

/** Returns the path of the copy: in an existing folder, or as the user wrote it. */
export async function insideName(
  client: ApiClient,
  sandbox: string,
  inside: string,
  name: string,
  signal: AbortSignal,
): Promise<string> {
  if (await isFolder(client, sandbox, inside, signal)) return posix.join(inside, name)
  if (!inside.endsWith('/')) return inside
  throw noFolder(sandbox, `${inside}x`)
}

function noFolder(sandbox: string, path: string, cause?: CraikError): CraikError {
  // Quoted, because the user types it.
  const folder = quoteArgument(posix.dirname(path))
  return new CraikError('not_found', `no folder ${folder} in the sandbox`, {
    hint: `create it first:  craik sandbox exec ${sandbox} -- mkdir -p ${folder}`,
    cause,
  })
}

/** A link in the sandbox may lead to a folder. Following it there does not endanger the host. */
async function isFolder(
  client: ApiClient,
  sandbox: string,
  path: string,
  signal: AbortSignal,
): Promise<boolean> {
  const found = await statInside(client, sandbox, path, signal)
  if (found?.type !== 'link') return found?.type === 'folder'
  return client.files.list(sandbox, path, { signal, limit: 1 }).then(
    () => true,
    () => false,
  )
}

export async function statInside(
  client: ApiClient,
  sandbox: string,
  path: string,
  signal: AbortSignal,
): Promise<FileBody | undefined> {
  try {
    return await client.files.stat(sandbox, path, { signal })
  } catch (error) {
    if (error instanceof CraikError && error.code === 'not_found') return undefined
    throw error
  }
}

function notCopied(path: string): CraikError {
  return new CraikError('usage', `cannot copy ${path}: only files and folders can be copied`, {
    hint: 'choose a file or a folder',
  })
}
