/** Output of a sandbox onto a stream of ours, no faster than that takes it. */

/**
 * Settles when the chunk is out; also when its reader has left, which the command learns elsewhere. A stream that is
 * destroyed may forget the write that it is busy with, so its end counts too.
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
