/** The part of a log that is on the sandbox's disk: a row of files, each closed when nobody needs what is in it. */
import { SpillFile } from './spill-file.ts'

const FILE_BYTES = 8 * 1024 * 1024
/** A file may hold this share of what is kept, so that much output does not take as many descriptors. */
const FILE_SHARE = 1 / 8

export class Spill {
  readonly #folder: string
  readonly #fileBytes: number
  /** By position. Between two of them there may be a hole. */
  #files: SpillFile[] = []
  #closed = false

  constructor(folder: string, fileBytes = FILE_BYTES) {
    this.#folder = folder
    this.#fileBytes = fileBytes
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** What it takes of the disk. */
  get bytes(): number {
    return this.#files.reduce((sum, file) => sum + file.end - file.start, 0)
  }

  /** The oldest position that it has. */
  get start(): number | undefined {
    return this.#files.find((file) => file.end > file.start)?.start
  }

  /** Where what comes next would follow without a hole. */
  get end(): number | undefined {
    return this.#files.at(-1)?.end
  }

  /** The file that has a position. */
  at(position: number): SpillFile | undefined {
    return this.#files.find((file) => file.has(position))
  }

  /** The next position after one that it does not have. */
  startAfter(position: number): number | undefined {
    return this.#files.find((file) => file.start > position && file.end > file.start)?.start
  }

  /** Whole frames, from a position on; to be called one at a time. Rejects when the disk does not take them. */
  async append(position: number, bytes: Buffer): Promise<void> {
    const last = this.#files.at(-1)
    const isFull = last && last.end - last.start >= Math.max(this.#fileBytes, this.bytes * FILE_SHARE)
    if (last && last.end === position && !isFull) return last.append(bytes)
    // Made for another position, and then the disk took nothing.
    if (last?.end === last?.start) void this.#files.pop()?.close()
    const file = await SpillFile.create(this.#folder, position)
    if (this.#closed) return file.close()
    this.#files.push(file)
    await file.append(bytes)
  }

  /** Nobody asks for what is before that position. The newest file stays: it is being written. */
  release(position: number): void {
    while (this.#files.length > 1 && this.#files[0]!.end <= position) void this.#files.shift()!.close()
  }

  /** Nobody asks for any of it. */
  async close(): Promise<void> {
    this.#closed = true
    const files = this.#files
    this.#files = []
    await Promise.all(files.map((file) => file.close()))
  }
}
