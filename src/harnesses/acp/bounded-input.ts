/**
 * Limits the input that an agent has not read yet. Craik does not wait for an agent that sends request after request
 * and reads no response.
 */

export function limitInput(
  input: WritableStream<Uint8Array>,
  mostBytes: number,
  onFull: () => void,
): WritableStream<Uint8Array> {
  const writer = input.getWriter()
  let pendingBytes = 0
  let isFull = false
  return new WritableStream<Uint8Array>({
    write(chunk) {
      if (isFull) return
      pendingBytes += chunk.length
      if (pendingBytes > mostBytes) {
        isFull = true
        onFull()
        return
      }
      const release = () => {
        pendingBytes -= chunk.length
      }
      // A write error is ignored, because the agent's exit status explains why it does not read.
      writer.write(chunk).then(release, release)
    },
    close: () => writer.close(),
  })
}
