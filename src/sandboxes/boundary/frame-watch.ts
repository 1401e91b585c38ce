/**
 * Follows the frames of a job's output as they pass, without keeping them, and reads the result from the exit frame.
 */
import { CraikError } from '../../errors.ts'
import { FRAME, FRAME_HEADER_BYTES, isInLog, MAX_FRAME_BYTES } from '../../lib/frames.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import type { Check } from './body-stream.ts'
import {
  ackSchema,
  gapSchema,
  invalidResponse,
  jobResultSchema,
  parseSidecarAnswer,
} from './sidecar-responses.ts'

/** The limit of a JSON frame's payload. */
const MAX_JSON_FRAME_BYTES = 4096

const LIMIT: ReadonlyMap<number, number> = new Map([
  [FRAME.stdout, MAX_FRAME_BYTES],
  [FRAME.stderr, MAX_FRAME_BYTES],
  [FRAME.exit, MAX_JSON_FRAME_BYTES],
  [FRAME.gap, MAX_JSON_FRAME_BYTES],
  [FRAME.ack, MAX_JSON_FRAME_BYTES],
  [FRAME.alive, 0],
])

export class FrameWatch implements Check {
  readonly #doing: string
  readonly #header = Buffer.alloc(FRAME_HEADER_BYTES)
  #headerBytes = 0
  #type = 0
  #length = 0
  #missing = 0
  /** The payload of a JSON frame. The payloads of other frames are not kept. */
  #json: Buffer | undefined
  #position: number
  #result: JobResult | undefined

  constructor(after: number, doing: string) {
    this.#position = after
    this.#doing = doing
  }

  /** The position in the log after the last whole frame. */
  get position(): number {
    return this.#position
  }

  get result(): JobResult | undefined {
    return this.#result
  }

  chunk(data: Buffer): void {
    let at = 0
    while (at < data.length) {
      if (this.#result) throw invalidResponse(this.#doing, 'more data after the end of the job')
      at += this.#headerBytes < FRAME_HEADER_BYTES ? this.#takeHeader(data, at) : this.#takePayload(data, at)
    }
  }

  end(): void {
    if (this.#result) return
    throw new CraikError(
      'boundary_failed',
      `cannot ${this.#doing}: the sandbox closed the connection before it reported the result`,
      {
        details: { brokeOff: true },
      },
    )
  }

  #takeHeader(data: Buffer, at: number): number {
    const taken = data.copy(this.#header, this.#headerBytes, at, at + FRAME_HEADER_BYTES - this.#headerBytes)
    this.#headerBytes += taken
    if (this.#headerBytes < FRAME_HEADER_BYTES) return taken
    this.#type = this.#header.readUInt8(0)
    this.#length = this.#header.readUInt32BE(1)
    const limit = LIMIT.get(this.#type)
    if (limit === undefined || this.#length > limit) throw invalidResponse(this.#doing, 'an invalid frame')
    this.#missing = this.#length
    const isJson = this.#type !== FRAME.stdout && this.#type !== FRAME.stderr && this.#type !== FRAME.alive
    this.#json = isJson ? Buffer.alloc(this.#length) : undefined
    if (this.#missing === 0) this.#complete()
    return taken
  }

  #takePayload(data: Buffer, at: number): number {
    const taken = Math.min(this.#missing, data.length - at)
    if (this.#json) data.copy(this.#json, this.#length - this.#missing, at, at + taken)
    this.#missing -= taken
    if (this.#missing === 0) this.#complete()
    return taken
  }

  #complete(): void {
    this.#headerBytes = 0
    if (isInLog(this.#type)) this.#position += FRAME_HEADER_BYTES + this.#length
    if (!Number.isSafeInteger(this.#position))
      throw invalidResponse(this.#doing, 'more data than can be counted')
    if (!this.#json) return
    if (this.#type === FRAME.exit) this.#result = parseSidecarAnswer(jobResultSchema, this.#json, this.#doing)
    if (this.#type === FRAME.ack) parseSidecarAnswer(ackSchema, this.#json, this.#doing)
    if (this.#type === FRAME.gap) this.#skip(this.#json)
    this.#json = undefined
  }

  #skip(json: Buffer): void {
    const { from, to } = parseSidecarAnswer(gapSchema, json, this.#doing)
    if (from !== this.#position) throw invalidResponse(this.#doing, 'a gap at the wrong position')
    this.#position = to
  }
}
