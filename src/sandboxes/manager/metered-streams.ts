/** Streams that pass through the host: counted by it, never held by it. */
import { Duplex, type Readable, Transform, type TransformCallback } from 'node:stream'
import { CraikError } from '../../errors.ts'

interface MeterOptions {
  /** Told of every piece as it passes. */
  readonly onBytes?: (bytes: number) => void
  readonly beforeEnd?: (bytes: number) => Promise<unknown>
}

/** Counts what passes, and may have something to finish before it says that it is at its end. */
export class Meter extends Transform {
  bytes = 0
  readonly #onBytes: MeterOptions['onBytes']
  readonly #beforeEnd: MeterOptions['beforeEnd']

  constructor({ onBytes, beforeEnd }: MeterOptions = {}) {
    super()
    this.#onBytes = onBytes
    this.#beforeEnd = beforeEnd
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.bytes += chunk.length
    this.#onBytes?.(chunk.length)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    if (this.#beforeEnd === undefined) done()
    else
      this.#beforeEnd(this.bytes).then(
        () => done(),
        (error) => done(error),
      )
  }
}

/** More than all buffers between the host and a sandbox: of what broke off, so much may not have crossed. */
const ON_THE_WAY_BYTES = 1024 * 1024

/**
 * Sends a body through a meter. `onSent` is told of what has crossed for certain while it goes, and of the rest when
 * `send` resolves, which says that all of it arrived.
 */
export async function sendMetered<T>(
  body: Readable,
  send: (body: Readable) => Promise<T>,
  onSent: (bytes: number) => void,
): Promise<T> {
  let reported = 0
  const reportSent = (bytes: number) => {
    if (bytes > reported) onSent(bytes - reported)
    reported = Math.max(reported, bytes)
  }
  const meter: Meter = new Meter({ onBytes: () => reportSent(meter.bytes - ON_THE_WAY_BYTES) })
  const onBreak = () =>
    body.readableEnded || meter.destroy(new CraikError('interrupted', 'the input ended early'))
  meter.on('error', () => {})
  body.on('error', (error) => meter.destroy(error))
  body.once('close', onBreak)
  if (body.destroyed) onBreak()
  try {
    const answer = await send(body.pipe(meter))
    reportSent(meter.bytes)
    return answer
  } finally {
    body.off('close', onBreak)
    body.unpipe(meter)
    meter.destroy()
  }
}

/** How a stream came to its end: whole, given up by its reader, or broken off. */
export type StreamEnd = { readonly end: 'whole' | 'left' } | { readonly end: 'broken'; readonly error: Error }

/**
 * Passes a stream on through a meter and tells once how it ended. A reader that leaves ends the source; a source that
 * breaks off is told to the reader.
 */
export function meterStream(
  source: Readable,
  onEnd: (end: StreamEnd, bytes: number) => void,
  options: MeterOptions = {},
): Meter {
  const meter = new Meter(options)
  let ended: StreamEnd | undefined
  const finish = (end: StreamEnd) => {
    if (ended !== undefined) return
    ended = end
    onEnd(end, meter.bytes)
  }
  source.once('error', (error) => {
    finish({ end: 'broken', error })
    meter.destroy(error)
  })
  source.once('close', () => {
    if (source.readableEnded) return
    const error = new CraikError('boundary_failed', 'the stream from the sandbox ended early')
    finish({ end: 'broken', error })
    meter.destroy(error)
  })
  meter.once('close', () => {
    finish(meter.readableEnded ? { end: 'whole' } : { end: 'left' })
    source.destroy()
  })
  // Whoever reads it hears of the error; without a reader it must not end the process.
  meter.on('error', () => {})
  source.pipe(meter)
  return meter
}

export interface MeteredDuplex {
  readonly stream: Duplex
  /** From the sandbox, and towards it. */
  readonly bytes: { in: number; out: number }
}

/** The same for a stream with two directions, each of which ends by itself. */
export function meterDuplex(inner: Duplex, onClose: (error: Error | undefined) => void): MeteredDuplex {
  const bytes = { in: 0, out: 0 }
  let failed: Error | undefined
  const stream = new Duplex({
    allowHalfOpen: true,
    read() {
      inner.resume()
    },
    write(chunk: Buffer, _encoding, done) {
      inner.write(chunk, (error) => {
        if (!error) bytes.out += chunk.length
        done(error)
      })
    },
    final(done) {
      inner.end(done)
    },
    destroy(error, done) {
      inner.destroy()
      done(error)
    },
  })
  inner.pause()
  inner.on('data', (chunk: Buffer) => {
    bytes.in += chunk.length
    if (!stream.push(chunk)) inner.pause()
  })
  inner.once('end', () => stream.push(null))
  inner.once('error', (error) => {
    failed = error
    stream.destroy(error)
  })
  inner.once('close', () => {
    if (!inner.readableEnded || !inner.writableFinished) stream.destroy()
  })
  stream.on('error', () => {})
  stream.once('close', () => onClose(failed))
  return { stream, bytes }
}
