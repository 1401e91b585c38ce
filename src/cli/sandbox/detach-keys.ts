/** Ctrl-] then d leaves a terminal and lets what runs in it go on. Ctrl-] twice sends one Ctrl-]. */

const PREFIX = 0x1d
const DETACH = 'd'.charCodeAt(0)

export class DetachKeys {
  #prefixed = false

  /** What of the typed bytes is for the terminal, and whether the person leaves. Nothing after leaving is passed on. */
  push(chunk: Buffer): { readonly data: Buffer; readonly detached: boolean } {
    // One more than typed: a prefix may be held since the last chunk.
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
