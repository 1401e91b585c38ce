/** A part of a log on the sandbox's own disk, in a file that no longer has a name. */
import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'

export class SpillFile {
  readonly #handle: FileHandle
  readonly start: number
  #end: number

  private constructor(handle: FileHandle, start: number) {
    this.#handle = handle
    this.start = start
    this.#end = start
  }

  /** Creates a file for a log from that position on. Nothing of it remains when the sidecar dies. */
  static async create(folder: string, start: number): Promise<SpillFile> {
    const path = join(folder, `.craik-${randomUUID()}`)
    const create = () => open(path, 'wx+', 0o600)
    const handle = await create().catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      await mkdir(folder, { recursive: true, mode: 0o700 })
      return create()
    })
    await unlink(path).catch(() => {})
    return new SpillFile(handle, start)
  }

  get end(): number {
    return this.#end
  }

  has(position: number): boolean {
    return position >= this.start && position < this.#end
  }

  /** Appends all of the bytes or none, because a part could end in the middle of a frame. */
  async append(bytes: Buffer): Promise<void> {
    for (let written = 0; written < bytes.length; ) {
      const at = this.#end - this.start + written
      const { bytesWritten } = await this.#handle.write(bytes, written, bytes.length - written, at)
      if (bytesWritten === 0) throw new Error('nothing could be written')
      written += bytesWritten
    }
    this.#end += bytes.length
  }

  /** Returns bytes from a position on. At the end, it returns fewer than requested. */
  async read(position: number, maxBytes: number): Promise<Buffer> {
    const wanted = Math.min(maxBytes, this.#end - position)
    const bytes = Buffer.allocUnsafeSlow(wanted)
    const { bytesRead } = await this.#handle.read(bytes, 0, wanted, position - this.start)
    return bytes.subarray(0, bytesRead)
  }

  async close(): Promise<void> {
    await this.#handle.close().catch(() => {})
  }
}
