/** Reads a request's body with limits on size and time, and counts it against its caller's memory budget. */
import type { IncomingMessage } from 'node:http'
import type { GatewayLimits } from '../gateway-limits.ts'
import { LARGE_BODY_BYTES } from '../gateway-limits.ts'
import { isCoding, RATIO_MAX, type ScanFault, type Scanned } from './body-scan.ts'
import type { BodyScanner, ScannerFault } from './body-scanner.ts'
import type { LookInto } from './json-members.ts'

export type BodyFault = ScanFault | ScannerFault | 'too_slow' | 'no_room' | 'pieces'

/** The memory that the requests of one caller use, and the thread that scans them. */
export interface MemoryBudget {
  heldBytes: number
  readonly scanner: BodyScanner
}

/** The memory that one request and its response use, counted against the caller's budget. */
export class BufferedBytes {
  readonly #memory: MemoryBudget
  readonly #max: number
  #counted = 0

  constructor(memory: MemoryBudget, { heldBytes }: GatewayLimits) {
    this.#memory = memory
    this.#max = heldBytes
  }

  /** Counts the bytes in any case, and returns whether the budget allows them. A negative number releases bytes. */
  take(bytes: number): boolean {
    this.#counted += bytes
    this.#memory.heldBytes += bytes
    return this.#memory.heldBytes <= this.#max
  }

  release(): void {
    this.take(-this.#counted)
  }
}

/** The error for a client whose body is refused. Without headers, a retry is useless. */
export interface RefusedBody {
  readonly status: number
  readonly message: string
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export function describeFault(fault: BodyFault, { bodyBytes, bodyMs, scanMs }: GatewayLimits): RefusedBody {
  switch (fault) {
    case 'too_large':
      return { status: 413, message: `the request is larger than ${bodyBytes} bytes` }
    case 'ratio':
      return { status: 413, message: `the body decompresses to more than ${RATIO_MAX} times its size` }
    case 'scan_slow':
      return { status: 413, message: `the request could not be read within ${scanMs} ms` }
    case 'too_slow':
      return { status: 408, message: `the request was not complete within ${bodyMs} ms` }
    case 'pieces':
      return { status: 400, message: 'the request has too many small chunks; send larger ones' }
    case 'no_room':
      return { status: 429, message: 'this sandbox has too much data in open requests; wait for responses' }
    case 'busy':
      return {
        status: 429,
        message: 'Craik is reading other large requests of this sandbox; send them one after the other',
        headers: { 'retry-after': '1' },
      }
    case 'scan_failed':
      return {
        status: 503,
        message: 'several requests of this sandbox could not be read; wait a minute',
        headers: { 'retry-after': '60' },
      }
    case 'coding':
      return { status: 415, message: 'the body must be uncompressed, gzip or zstd' }
    case 'not_utf8':
      return { status: 400, message: 'the body is not UTF-8' }
    case 'gone':
      return { status: 400, message: 'the client disconnected during the request' }
  }
}

export interface BodyTerms {
  /** The members whose own members are read. `undefined` when none are. */
  readonly lookInto: LookInto | undefined
  /** Tells the client to send its body, if it waits for that. */
  readonly awaited: () => void
  readonly until: AbortSignal
  readonly held: BufferedBytes
}

/** Returns the bytes after decompression. */
export async function readBody(
  request: IncomingMessage,
  { scanner }: MemoryBudget,
  limits: GatewayLimits,
  { lookInto, awaited, until, held }: BodyTerms,
): Promise<Scanned | BodyFault> {
  const coding = request.headers['content-encoding'] ?? 'identity'
  if (!isCoding(coding)) return 'coding'
  const slot = new LargeSlot(scanner, until)
  try {
    const coded = await collect(request, held, limits, slot, awaited)
    if (typeof coded === 'string') return coded
    // The size of a compressed body is unknown before decompression.
    const fault = coding === 'identity' ? undefined : await slot.take()
    if (fault !== undefined) return fault
    const terms = { coding, maxBytes: limits.bodyBytes, lookInto }
    const body = await scanner.scan(coded, terms, until)
    if (coding === 'identity' || typeof body === 'string') return body
    return held.take(body.bytes.length) ? body : 'no_room'
  } finally {
    slot.release()
  }
}

/** The slot for one body over 1 MiB. Only one such body of a sandbox is read at a time. It is taken once. */
export class LargeSlot {
  readonly #scanner: BodyScanner
  readonly #until: AbortSignal
  #taken: Promise<(() => void) | 'busy' | 'gone'> | undefined
  #isOver = false

  constructor(scanner: BodyScanner, until: AbortSignal) {
    this.#scanner = scanner
    this.#until = until
  }

  get isAsked(): boolean {
    return this.#taken !== undefined
  }

  /** Resolves to `undefined` when the slot is taken. */
  async take(): Promise<'busy' | 'gone' | undefined> {
    this.#taken ??= this.#scanner.takeLargeSlot(this.#until)
    const taken = await this.#taken
    if (typeof taken === 'string') return taken
    if (!this.#isOver) return undefined
    taken()
    return 'gone'
  }

  release(): void {
    this.#isOver = true
    void this.#taken?.then((taken) => typeof taken === 'string' || taken())
  }
}

/**
 * Each chunk costs time and memory, however short it is. This many are accepted, and one more for every
 * `PIECE_BYTES` bytes.
 */
const PIECES_MIN = 4096
const PIECE_BYTES = 256

async function collect(
  request: IncomingMessage,
  held: BufferedBytes,
  limits: GatewayLimits,
  slot: LargeSlot,
  awaited: () => void,
): Promise<Buffer[] | BodyFault> {
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > limits.bodyBytes) return 'too_large'
  const fault = announced > LARGE_BODY_BYTES ? await slot.take() : undefined
  if (fault !== undefined) return fault
  if (request.destroyed) return 'gone'
  const { promise, resolve } = Promise.withResolvers<Buffer[] | BodyFault>()
  const pieces: Buffer[] = []
  let bytes = 0
  const timer = setTimeout(() => finish('too_slow'), limits.bodyMs)
  const finish = (result: Buffer[] | BodyFault) => {
    clearTimeout(timer)
    request.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
    request.on('error', () => {})
    resolve(result)
  }
  const onData = (piece: Buffer) => {
    bytes += piece.length
    pieces.push(piece)
    if (bytes > limits.bodyBytes) finish('too_large')
    else if (pieces.length > PIECES_MIN + bytes / PIECE_BYTES) finish('pieces')
    else if (!held.take(piece.length)) finish('no_room')
    else if (bytes > LARGE_BODY_BYTES && !slot.isAsked) waitForSlot()
  }
  const waitForSlot = () => {
    request.pause()
    void slot.take().then((fault) => (fault === undefined ? request.resume() : finish(fault)))
  }
  const onEnd = () => finish(pieces)
  const onGone = () => finish('gone')
  request.on('data', onData).once('end', onEnd).once('close', onGone).once('error', onGone)
  awaited()
  return promise
}
