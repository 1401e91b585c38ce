/** What an agent is told and has not read yet, up to a limit: one that asks and asks and reads no answer is not waited for. */

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
      // How the agent ended says why it does not take it.
      writer.write(chunk).then(release, release)
    },
    close: () => writer.close(),
  })
}
