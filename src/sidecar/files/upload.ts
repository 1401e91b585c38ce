/** One upload: writes the file beside its target, and renames it into place when it is complete. */
import { constants, type FileHandle, lstat, open, realpath, rename, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Upload } from '../protocol.ts'
import { SidecarError } from '../router.ts'
import { answerFor } from './request-path.ts'

/** At most two lots are in memory: one that is being written, and one that is being collected. */
const BATCH_BYTES = 1024 * 1024

export interface UploadPlan {
  readonly id: string
  readonly path: string
  readonly size: number
  readonly mode: number
}

export class OpenUpload {
  readonly plan: UploadPlan
  readonly #target: string
  readonly #temporary: string
  readonly #file: FileHandle
  #offset = 0
  /** The number of bytes after the offset that have arrived and are not yet written. */
  #unwrittenBytes = 0
  #committed = false

  private constructor(plan: UploadPlan, target: string, temporary: string, file: FileHandle) {
    this.plan = plan
    this.#target = target
    this.#temporary = temporary
    this.#file = file
  }

  static async begin(plan: UploadPlan): Promise<OpenUpload> {
    try {
      const target = await targetPath(plan.path)
      const temporary = join(dirname(target), `.craik-upload-${plan.id}`)
      return new OpenUpload(plan, target, temporary, await openNew(temporary))
    } catch (error) {
      throw answerFor(error, plan.path)
    }
  }

  get state(): Upload {
    return { offset: this.#offset, committed: this.#committed }
  }

  /** Writes bytes that begin at an offset of the file. Skips bytes that it already has. */
  async write(offset: number, body: AsyncIterable<Buffer>): Promise<void> {
    let at = offset
    let gathered: Buffer[] = []
    let bytes = 0
    // The bytes arrive in small pieces. While one lot is written, the next is collected.
    let writing: Promise<void> = Promise.resolve()
    let isWriting = false
    const next = async () => {
      await writing
      isWriting = true
      writing = this.#append(gathered).finally(() => {
        isWriting = false
      })
      // The error reaches the next `await`.
      writing.catch(() => {})
      gathered = []
      bytes = 0
    }
    try {
      for await (const chunk of body) {
        const known = Math.min(chunk.length, Math.max(0, this.#offset + this.#unwrittenBytes - at))
        at += chunk.length
        if (at > this.plan.size)
          throw new SidecarError('too_large', `${this.plan.path}: received more bytes than announced`)
        if (known === chunk.length) continue
        gathered.push(chunk.subarray(known))
        bytes += chunk.length - known
        this.#unwrittenBytes += chunk.length - known
        if (!isWriting || bytes >= BATCH_BYTES) await next()
      }
    } finally {
      await next()
      await writing
    }
  }

  /** Renames the file into place when all bytes have arrived. */
  async commitWhenWhole(): Promise<void> {
    if (this.#committed || this.#offset < this.plan.size) return
    try {
      await this.#file.sync()
      await this.#file.chmod(this.plan.mode)
      await rename(this.#temporary, this.#target)
    } catch (error) {
      throw answerFor(error, this.plan.path)
    }
    this.#committed = true
    await this.#file.close()
  }

  /** Removes the temporary file. Does nothing when the upload is complete. */
  async drop(): Promise<void> {
    if (this.#committed) return
    await this.#file.close().catch(() => {})
    await unlink(this.#temporary).catch(() => {})
  }

  async #append(chunks: readonly Buffer[]): Promise<void> {
    let left = chunks
    try {
      while (left.length > 0) {
        const { bytesWritten } = await this.#file.writev(left, this.#offset)
        this.#offset += bytesWritten
        this.#unwrittenBytes -= bytesWritten
        left = dropBytes(left, bytesWritten)
      }
    } catch (error) {
      this.#unwrittenBytes = 0
      throw answerFor(error, this.plan.path)
    }
  }
}

/** Returns the rest after this many bytes were written. */
function dropBytes(chunks: readonly Buffer[], bytes: number): readonly Buffer[] {
  let done = bytes
  for (const [index, chunk] of chunks.entries()) {
    if (done < chunk.length) return [chunk.subarray(done), ...chunks.slice(index + 1)]
    done -= chunk.length
  }
  return []
}

/** Returns the target of the file. Follows links that lead to something, and refuses folders. */
async function targetPath(path: string): Promise<string> {
  const target = await realpath(path).catch(() => path)
  const stat = await lstat(target).catch(() => undefined)
  if (stat?.isDirectory()) throw new SidecarError('conflict', `${path}: is a folder`)
  if (stat !== undefined && !stat.isFile() && !stat.isSymbolicLink())
    throw new SidecarError('conflict', `${path}: is not a regular file`)
  return target
}

async function openNew(path: string): Promise<FileHandle> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  return await open(path, flags, 0o600).catch(async (error: NodeJS.ErrnoException) => {
    // An earlier run in the same folder left this file, and no client continues it.
    if (error.code !== 'EEXIST') throw error
    await unlink(path)
    return await open(path, flags, 0o600)
  })
}
