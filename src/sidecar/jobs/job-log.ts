/**
 * What a job has said: a row of frames that any number of readers follow, each at its own pace, from any position
 * that is still there. Memory is bounded whatever the job writes and whoever reads.
 */
import { FRAME, FRAME_HEADER_BYTES, type FrameType, isInLog } from '../../lib/frames.ts'
import { Blocks } from './blocks.ts'
import { Spill } from './spill.ts'
import { SpillFile } from './spill-file.ts'

/**
 * What happens when memory is full. `spill`: it goes to the disk, where it stays until a reader acknowledges it; if the
 * disk takes nothing, the program is held up until readers have taken it. `ring`: the oldest is dropped. `window`: the
 * program is held up until a reader acknowledges.
 */
export type LogMode = 'spill' | 'ring' | 'window'

export interface LogOptions {
  readonly mode: LogMode
  readonly memoryBytes: number
  readonly spillFolder: string
  /** Of each file on the disk, about. */
  readonly spillFileBytes?: number
  /** A program whose readers acknowledge is held up when it is so far ahead of all of them. */
  readonly aheadBytes?: number
  /** Called when `hasRoom` may have become true. */
  readonly onDrain: () => void
}

export interface LogReader {
  /** Everything before it has been given to the reader. */
  readonly position: number
  /** When it came, by the clock of `performance`. */
  readonly sinceMs: number
  wake(): void
}

/** Whole frames, or what is said instead of frames that are gone. */
export type LogPiece = Buffer | { readonly from: number; readonly to: number }

/** The payload of a frame in the log; so the piece below always holds a whole one. */
const MAX_PAYLOAD_BYTES = 64 * 1024
const FILE_PIECE_BYTES = 256 * 1024
/** After the disk took nothing: how long until it is tried again. */
const RETRY_MS = 1000
/** Who starts a job and leaves it to itself is a reader for a moment, and has taken nothing. */
const MOMENT_MS = 500

export class JobLog {
  readonly #options: LogOptions
  readonly #memory = new Blocks()
  readonly #readers = new Set<LogReader>()
  readonly #spill: Spill
  /** What was in memory when the job had ended for a while. */
  #parked: SpillFile | undefined
  #flushing: Promise<void> | undefined
  #spillFailed = false
  #retry: NodeJS.Timeout | undefined
  #acknowledged = 0
  /** Where the last frame begins, which is kept whatever is acknowledged: without it, no reader learns the end. */
  #lastAt = Number.POSITIVE_INFINITY
  #ended = false
  #closed = false

  constructor(options: LogOptions) {
    this.#options = options
    this.#spill = new Spill(options.spillFolder, options.spillFileBytes)
  }

  /** Where it ends. */
  get position(): number {
    return this.#memory.end
  }

  /** The oldest byte that can still be read. */
  get first(): number {
    return this.#spill.start ?? this.#parked?.start ?? this.#memory.start
  }

  /** Readers have everything before it. */
  get acknowledged(): number {
    return this.#acknowledged
  }

  /** What it takes of the disk, without what was parked. */
  get spillBytes(): number {
    return this.#spill.bytes
  }

  /** The program is held up because the disk takes nothing. */
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

  /** False: the program has to wait before it says more. */
  get hasCapacity(): boolean {
    const { mode, memoryBytes } = this.#options
    if (mode === 'ring') return true
    if (mode === 'spill' && this.#isAhead()) return false
    // While the disk takes one half, the other may fill.
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

  /** Nothing more will be appended. */
  end(): void {
    this.#ended = true
    this.wakeReaders()
  }

  /** A reader has everything before that position. */
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

  /** Of a job that has ended: its newest part stays, the rest is dropped from the disk. */
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

  /** To be called when a reader's position has moved on. */
  readerMoved(): void {
    if (this.#spillFailed) this.#trim()
    else if (this.#options.mode === 'spill') this.#options.onDrain()
  }

  wakeReaders(): void {
    for (const reader of this.#readers) reader.wake()
  }

  /** What comes at a position; undefined when it is the end. Throws RangeError when no frame begins there. */
  read(position: number): LogPiece | undefined | Promise<LogPiece> {
    if (position === this.position) return undefined
    const here = this.#memory.at(position)
    if (here) return wholeFrames(here)
    const file = this.#spill.at(position) ?? this.#parked
    if (file?.has(position)) return this.#readFile(file, position)
    return { from: position, to: this.#nextAfter(position) }
  }

  /** Moves what is in memory to the disk; for jobs that have ended. Where that fails, it stays. */
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
      // No space: it stays where it is.
    }
    // Somebody may have closed the log, or taken from the memory, meanwhile.
    if (!file || this.#closed || this.#parked || file.end !== this.#memory.end) return file?.close()
    this.#parked = file
    this.#memory.clear()
  }

  /** Forgets everything, as soon as the last reader is through. */
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

  /** Where there is something again after a position at which there is nothing. */
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
    // The disk has lost it, or it was acknowledged meanwhile.
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

  /** Where readers acknowledge, that is what counts: one that was cut off comes back for the rest. */
  #takenPosition(): number {
    if (this.#acknowledged > 0) return Math.min(this.#acknowledged, this.#lastAt)
    if (this.#readers.size === 0) return 0
    const before = performance.now() - MOMENT_MS
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
      // No space, no quota, or a broken disk: the log goes on in memory, and the disk is tried again.
      this.#spillFailed = true
      clearTimeout(this.#retry)
      this.#retry = setTimeout(() => {
        if (!this.#closed && this.#spillFailed) void this.#flush()
      }, RETRY_MS).unref()
    }
  }
}

/** Cut after the last whole frame. */
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
