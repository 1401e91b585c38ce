/** Ctrl-] then d detaches from a terminal and keeps its program running. Ctrl-] twice sends one Ctrl-]. */

const PREFIX = 0x1d
const DETACH = 'd'.charCodeAt(0)

export class DetachKeys {
  #prefixed = false

  /** Returns the bytes for the terminal, and whether the user detaches. Drops everything after that. */
  push(chunk: Buffer): { readonly data: Buffer; readonly detached: boolean } {
    // One byte more than the chunk, because a prefix from the last chunk may be pending.
    const data = Buffer.allocUnsafe(chunk.length + 1)
    let length = 0
    for (const byte of chunk) {
      if (!this.#prefixed && byte === PREFIX) {
        this.#prefixed = true
        continue
      }
      if (this.#prefixed && byte === DETACH) return { data: data.subarray(0, length), detached: true }
      if (this.#prefixed && byte !== PREFIX) data[length++] = PREFIX
      this.#prefixed = false
      data[length++] = byte
    }
    return { data: data.subarray(0, length), detached: false }
  }
}
