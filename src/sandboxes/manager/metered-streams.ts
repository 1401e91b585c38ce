/** Streams that pass through the host. The host counts their bytes and never stores them. */
import { Duplex, type Readable, Transform, type TransformCallback } from 'node:stream'
import { CraikError } from '../../errors.ts'

interface MeterOptions {
  /** Called with the size of every chunk that passes. */
  readonly onBytes?: (bytes: number) => void
  readonly beforeEnd?: (bytes: number) => Promise<unknown>
}

/** Counts the bytes that pass, and can finish other work before it reports its end. */
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

/**
 * More than all buffers between the host and a sandbox. When a transfer breaks off, this many bytes may not have
 * crossed.
 */
const ON_THE_WAY_BYTES = 1024 * 1024

/**
 * Sends a body through a meter. During the transfer, `onSent` receives the bytes that have certainly crossed. It
 * receives the rest when `send` resolves, which means that all of it arrived.
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

/** The end of a stream: complete, stopped by its reader, or broken off. */
export type StreamEnd = { readonly end: 'whole' | 'left' } | { readonly end: 'broken'; readonly error: Error }

/**
 * Passes a stream through a meter and reports once how it ended. When the reader stops, the source is closed. When the
 * source breaks off, the reader gets the error.
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
  // The reader gets the error. Without a reader it must not end the process.
  meter.on('error', () => {})
  source.pipe(meter)
  return meter
}

export interface MeteredDuplex {
  readonly stream: Duplex
  /** The bytes from the sandbox, and the bytes to it. */
  readonly bytes: { in: number; out: number }
}

/** Does the same for a stream with two directions, each of which ends independently. */
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
