/** Writes output of a sandbox to a stream of this process, no faster than the stream accepts it. */

/**
 * Settles when the chunk is written, or when the reader of the stream has exited, which the command detects elsewhere.
 * A destroyed stream may never report its pending write, so its `close` counts too.
 */
export function writeTo(stream: NodeJS.WritableStream, chunk: Buffer): Promise<void> {
  return new Promise((done) => {
    const settle = () => {
      stream.off('close', settle)
      done()
    }
    stream.once('close', settle)
    stream.write(chunk, settle)
  })
}
