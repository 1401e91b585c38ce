/**
 * How the output of a job is encoded on a stream. A job's log is a sequence of frames. A position in it is a number of
 * bytes, and is the sequence number that a reader resumes from. Frames that are not part of the log report the state of
 * the stream and do not move the reader's position, except that a gap moves it to its `to`.
 */
import { CraikError } from '../errors.ts'

/** Types 1 to 3 are in the log. Types from 16 on are not. */
export const FRAME = {
  /** Bytes of standard output or of a terminal. */
  stdout: 1,
  stderr: 2,
  /** JSON, `JobResult`: the last frame of a log. */
  exit: 3,
  /** JSON `{ from, to }`: the log's bytes between these positions were dropped. The reader is now at `to`. */
  gap: 16,
  /** JSON `{ offset }`: this many bytes of input have reached the job. */
  ack: 17,
  /** Empty. It shows that the connection is alive. */
  alive: 18,
} as const

export type FrameType = (typeof FRAME)[keyof typeof FRAME]

export interface Frame {
  readonly type: FrameType
  readonly payload: Buffer
}

/** Type (1 byte) and length (4 bytes, big-endian). */
export const FRAME_HEADER_BYTES = 5
/** The most that a reader accepts in one frame. A writer splits its data accordingly. */
export const MAX_FRAME_BYTES = 256 * 1024

const KNOWN: ReadonlySet<number> = new Set(Object.values(FRAME))

export function isInLog(type: number): boolean {
  return type < FRAME.gap
}

export function encodeFrame(type: FrameType, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length)
  frame.writeUInt8(type, 0)
  frame.writeUInt32BE(payload.length, 1)
  frame.set(payload, FRAME_HEADER_BYTES)
  return frame
}

export function encodeJsonFrame(type: FrameType, value: unknown): Buffer {
  return encodeFrame(type, Buffer.from(JSON.stringify(value)))
}

/**
 * Splits a stream into frames. Throws on an unknown type or an oversized length, because then the sender is not Craik.
 */
export class FrameReader {
  #pending: Buffer = Buffer.alloc(0);

  *push(chunk: Buffer): Generator<Frame> {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    let at = 0
    while (this.#pending.length - at >= FRAME_HEADER_BYTES) {
      const type = this.#pending.readUInt8(at)
      const length = this.#pending.readUInt32BE(at + 1)
      if (!KNOWN.has(type) || length > MAX_FRAME_BYTES)
        throw new CraikError(
          'boundary_failed',
          'the sandbox sent invalid output of a job (a malformed frame)',
        )
      const end = at + FRAME_HEADER_BYTES + length
      if (this.#pending.length < end) break
      yield { type: type as FrameType, payload: this.#pending.subarray(at + FRAME_HEADER_BYTES, end) }
      at = end
    }
    this.#pending = this.#pending.subarray(at)
  }

  /** Bytes of a frame that is not complete yet. */
  get pendingBytes(): number {
    return this.#pending.length
  }
}
