/**
 * The output of a job: a sequence of frames that any number of readers follow. Each reads at its own pace, from any
 * position that still exists. Memory is bounded, whatever the job writes and the readers do.
 */
import { FRAME, FRAME_HEADER_BYTES, type FrameType, isInLog } from '../../lib/frames.ts'
import { Blocks } from './blocks.ts'
import { Spill } from './spill.ts'
import { SpillFile } from './spill-file.ts'

/**
 * Selects how the log continues when its memory is full. `spill`: output goes to the disk, where it stays until a
 * reader acknowledges it. If the disk takes nothing, the program pauses until readers have received the output. `ring`:
 * the oldest output is dropped. `window`: the program pauses until a reader acknowledges.
 */
export type LogMode = 'spill' | 'ring' | 'window'

export interface LogOptions {
  readonly mode: LogMode
  readonly memoryBytes: number
  readonly spillFolder: string
  /** The approximate size of each file on the disk. */
  readonly spillFileBytes?: number
  /** If its readers acknowledge, a program pauses when it is this far ahead of all of them. */
  readonly aheadBytes?: number
  /** Called when `hasCapacity` may have become true. */
  readonly onDrain: () => void
}

export interface LogReader {
  /** The reader has received everything before this position. */
  readonly position: number
  /** The time when the reader came, by the clock of `performance`. */
  readonly sinceMs: number
  wake(): void
}

/** Whole frames, or the range of frames that are gone. */
export type LogPiece = Buffer | { readonly from: number; readonly to: number }

/** The largest payload of a frame in the log. A piece of `FILE_PIECE_BYTES` therefore always contains a whole frame. */
const MAX_PAYLOAD_BYTES = 64 * 1024
const FILE_PIECE_BYTES = 256 * 1024
/** How long after a failed write the log tries the disk again. */
const RETRY_MS = 1000
/**
 * A client that starts a job and does not follow it is a reader for a moment. For this long, a reader counts as having
 * received nothing.
 */
const NEW_READER_MS = 500

export class JobLog {
  readonly #options: LogOptions
  readonly #memory = new Blocks()
  readonly #readers = new Set<LogReader>()
  readonly #spill: Spill
  /** The memory of a job that ended a while ago, now on the disk. */
  #parked: SpillFile | undefined
  #flushing: Promise<void> | undefined
  #spillFailed = false
  #retry: NodeJS.Timeout | undefined
  #acknowledged = 0
  /**
   * The position of the last frame. The log keeps this frame, whatever is acknowledged, because it tells readers the
   * result.
   */
  #lastAt = Number.POSITIVE_INFINITY
  #ended = false
  #closed = false

  constructor(options: LogOptions) {
    this.#options = options
    this.#spill = new Spill(options.spillFolder, options.spillFileBytes)
  }

  /** The position of the end. */
  get position(): number {
    return this.#memory.end
  }

  /** The position of the oldest byte that can still be read. */
  get first(): number {
    return this.#spill.start ?? this.#parked?.start ?? this.#memory.start
  }

  /** Readers have received everything before this position. */
  get acknowledged(): number {
    return this.#acknowledged
  }

  /** The number of bytes on the disk, without the parked ones. */
  get spillBytes(): number {
    return this.#spill.bytes
  }

  /** True when the program is paused because the disk takes nothing. */
  get waitsForDisk(): boolean {
    return this.#spillFailed && !this.#ended && !this.hasCapacity
  }

  get hasEnded(): boolean {
    return this.#ended
  }

  get readers(): number {
    return this.#readers.size
  }

  get memoryBytes(): number {
    return this.#memory.byteLength
  }

  /** False: the program has to wait before it writes more. */
  get hasCapacity(): boolean {
    const { mode, memoryBytes } = this.#options
    if (mode === 'ring') return true
    if (mode === 'spill' && this.#isAhead()) return false
    // While the disk writes one half, the other half may fill.
    const bound = mode === 'spill' && !this.#spillFailed ? 2 * memoryBytes : memoryBytes
    return this.#memory.byteLength < bound
  }

  append(type: FrameType, payload: Uint8Array): void {
    if (this.#ended) return
    for (let at = 0; at === 0 || at < payload.length; at += MAX_PAYLOAD_BYTES) {
      const part = payload.subarray(at, at + MAX_PAYLOAD_BYTES)
      const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES)
      header.writeUInt8(type, 0)
      header.writeUInt32BE(part.length, 1)
      if (type === FRAME.exit) this.#lastAt = this.position
      this.#memory.append(header, part)
    }
    this.#trim()
    this.wakeReaders()
  }

  /** Marks the log as complete: nothing more will be appended. */
  end(): void {
    this.#ended = true
    this.wakeReaders()
  }

  /** Records that a reader has received everything before that position. */
  acknowledge(position: number): void {
    if (position <= this.#acknowledged) return
    this.#acknowledged = position
    const { mode } = this.#options
    if (mode === 'window') {
      const until = Math.min(position, this.#lastAt)
      while (this.#memory.byteLength > 0 && this.#memory.oldestEnd <= until) this.#memory.dropOldest()
    } else if (mode === 'spill') {
      this.#spill.release(position)
      if (this.#ended && position === this.position) this.releaseSpill()
      this.#trim()
    }
    this.#options.onDrain()
  }

  /** For a job that has ended: keeps the newest part, and drops the rest from the disk. */
  releaseSpill(): void {
    void this.#spill.close()
  }

  addReader(reader: LogReader): void {
    this.#readers.add(reader)
    this.#trim()
  }

  removeReader(reader: LogReader): void {
    this.#readers.delete(reader)
    this.#trim()
    this.#options.onDrain()
    if (this.#closed) void this.#release()
  }

  /** Must be called when a reader's position has advanced. */
  readerMoved(): void {
    if (this.#spillFailed) this.#trim()
    else if (this.#options.mode === 'spill') this.#options.onDrain()
  }

  wakeReaders(): void {
    for (const reader of this.#readers) reader.wake()
  }

  /** Returns the piece at a position, or `undefined` at the end. Throws RangeError when no frame begins there. */
  read(position: number): LogPiece | undefined | Promise<LogPiece> {
    if (position === this.position) return undefined
    const here = this.#memory.at(position)
    if (here) return wholeFrames(here)
    const file = this.#spill.at(position) ?? this.#parked
    if (file?.has(position)) return this.#readFile(file, position)
    return { from: position, to: this.#nextAfter(position) }
  }

  /** Moves the memory of a job that has ended to the disk. If that fails, it stays in memory. */
  async park(): Promise<void> {
    await this.#flushing
    if (this.#memory.byteLength === 0 || this.#parked || this.#closed) return
    let file: SpillFile | undefined
    try {
      file = await SpillFile.create(this.#options.spillFolder, this.#memory.start)
      for (;;) {
        const bytes = this.#memory.at(file.end)
        if (!bytes) break
        await file.append(bytes)
      }
    } catch {
      // The disk has no space, so the output stays in memory.
    }
    // Meanwhile, the log may have been closed, or some of the memory dropped.
    if (!file || this.#closed || this.#parked || file.end !== this.#memory.end) return file?.close()
    this.#parked = file
    this.#memory.clear()
  }

  /** Drops everything as soon as the last reader is done. */
  close(): void {
    this.#closed = true
    void this.#release()
  }

  async #release(): Promise<void> {
    if (this.#readers.size > 0) return
    this.#ended = true
    this.#memory.clear()
    clearTimeout(this.#retry)
    await this.#flushing
    await this.#spill.close()
    await this.#parked?.close()
  }

  #isAhead(): boolean {
    const { aheadBytes = Number.POSITIVE_INFINITY } = this.#options
    if (this.#acknowledged === 0 || this.#readers.size === 0) return false
    return this.position - Math.max(...[...this.#readers].map((reader) => reader.position)) > aheadBytes
  }

  /** Returns the next position with content, after a position without. */
  #nextAfter(position: number): number {
    const memory = this.#memory.byteLength > 0 ? this.#memory.start : undefined
    const starts = [this.#spill.startAfter(position), this.#parked?.start, memory]
    const after = starts.filter((start) => start !== undefined).filter((start) => start > position)
    return Math.min(this.position, ...after)
  }

  async #readFile(file: SpillFile, position: number): Promise<LogPiece> {
    try {
      const bytes = await file.read(position, FILE_PIECE_BYTES)
      if (bytes.length > 0) return wholeFrames(bytes)
    } catch (error) {
      if (error instanceof RangeError) throw error
    }
    // The disk has lost the content, or a reader has acknowledged it meanwhile.
    return { from: position, to: this.#nextAfter(position) }
  }

  #trim(): void {
    const { mode, memoryBytes } = this.#options
    if (mode === 'ring') {
      while (this.#memory.byteLength > memoryBytes) this.#memory.dropOldest()
      return
    }
    if (mode === 'window') return
    if (!this.#spillFailed) {
      const isFull = this.#memory.byteLength > memoryBytes
      const isWritten = this.#spill.isClosed || this.#spill.end === this.#memory.end
      if (isFull && !isWritten && !this.#flushing) void this.#flush()
      return
    }
    const taken = this.#takenPosition()
    while (this.#memory.byteLength >= memoryBytes && this.#memory.oldestEnd <= taken)
      this.#memory.dropOldest()
    this.#options.onDrain()
  }

  /**
   * Returns the position up to which readers have received the log. If readers acknowledge, only that counts, because a
   * reader that was cut off returns for the rest.
   */
  #takenPosition(): number {
    if (this.#acknowledged > 0) return Math.min(this.#acknowledged, this.#lastAt)
    if (this.#readers.size === 0) return 0
    const before = performance.now() - NEW_READER_MS
    const taken = [...this.#readers].map(({ sinceMs, position }) => (sinceMs > before ? 0 : position))
    return Math.min(this.#lastAt, ...taken)
  }

  #flush(): Promise<void> {
    this.#flushing ??= this.#writeOut().finally(() => {
      this.#flushing = undefined
      if (!this.#closed) this.#trim()
      this.#options.onDrain()
    })
    return this.#flushing
  }

  async #writeOut(): Promise<void> {
    const { memoryBytes } = this.#options
    try {
      while (!this.#spill.isClosed) {
        const at = Math.max(this.#spill.end ?? 0, this.#memory.start)
        const bytes = this.#memory.at(at)
        if (!bytes) break
        await this.#spill.append(at, bytes)
        const written = Math.min(this.#spill.end ?? 0, this.#lastAt)
        while (this.#memory.byteLength > memoryBytes && this.#memory.oldestEnd <= written)
          this.#memory.dropOldest()
        this.#spill.release(this.#acknowledged)
        this.#options.onDrain()
      }
      this.#spillFailed = false
    } catch {
      // The disk has no space or quota left, or is broken. The log continues in memory and tries the disk again.
      this.#spillFailed = true
      clearTimeout(this.#retry)
      this.#retry = setTimeout(() => {
        if (!this.#closed && this.#spillFailed) void this.#flush()
      }, RETRY_MS).unref()
    }
  }
}

/** Returns the bytes up to the end of the last whole frame. */
function wholeFrames(bytes: Buffer): Buffer {
  let at = 0
  while (bytes.length - at >= FRAME_HEADER_BYTES) {
    const type = bytes.readUInt8(at)
    const length = bytes.readUInt32BE(at + 1)
    if (type === 0 || !isInLog(type) || length > MAX_PAYLOAD_BYTES)
      throw new RangeError('no frame begins at this position')
    const end = at + FRAME_HEADER_BYTES + length
    if (end > bytes.length) break
    at = end
  }
  if (at === 0) throw new RangeError('no frame begins at this position')
  return at === bytes.length ? bytes : bytes.subarray(0, at)
}
