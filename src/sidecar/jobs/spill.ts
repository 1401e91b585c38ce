/**
 * The part of a log on the sandbox's disk: a sequence of files. Each is closed when its content is no longer needed.
 */
import { SpillFile } from './spill-file.ts'

const FILE_BYTES = 8 * 1024 * 1024
/** A file may contain this share of the stored bytes, so that much output does not need as many descriptors. */
const FILE_SHARE = 1 / 8

export class Spill {
  readonly #folder: string
  readonly #fileBytes: number
  /** Sorted by position. There may be a gap between two of them. */
  #files: SpillFile[] = []
  #closed = false

  constructor(folder: string, fileBytes = FILE_BYTES) {
    this.#folder = folder
    this.#fileBytes = fileBytes
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** The number of bytes on the disk. */
  get bytes(): number {
    return this.#files.reduce((sum, file) => sum + file.end - file.start, 0)
  }

  /** The oldest position that is stored. */
  get start(): number | undefined {
    return this.#files.find((file) => file.end > file.start)?.start
  }

  /** The position at which the next bytes follow without a gap. */
  get end(): number | undefined {
    return this.#files.at(-1)?.end
  }

  /** Returns the file that contains a position. */
  at(position: number): SpillFile | undefined {
    return this.#files.find((file) => file.has(position))
  }

  /** Returns the next stored position after one that is not stored. */
  startAfter(position: number): number | undefined {
    return this.#files.find((file) => file.start > position && file.end > file.start)?.start
  }

  /**
   * Appends whole frames from a position on. Callers must wait for one call before the next. Rejects when the disk does
   * not take the frames.
   */
  async append(position: number, bytes: Buffer): Promise<void> {
    const last = this.#files.at(-1)
    const isFull = last && last.end - last.start >= Math.max(this.#fileBytes, this.bytes * FILE_SHARE)
    if (last && last.end === position && !isFull) return last.append(bytes)
    // This file was created for another position, and then the disk took nothing.
    if (last?.end === last?.start) void this.#files.pop()?.close()
    const file = await SpillFile.create(this.#folder, position)
    if (this.#closed) return file.close()
    this.#files.push(file)
    await file.append(bytes)
  }

  /**
   * Drops the files before that position, which no reader needs. The newest file stays, because it is being written.
   */
  release(position: number): void {
    while (this.#files.length > 1 && this.#files[0]!.end <= position) void this.#files.shift()!.close()
  }

  /** Closes all files, because no reader needs them. */
  async close(): Promise<void> {
    this.#closed = true
    const files = this.#files
    this.#files = []
    await Promise.all(files.map((file) => file.close()))
  }
}
