/** Recognises the credential of a call in what comes back: servers echo it, by accident or to have it written down. */

/** Shorter values would be found in any text. */
const SHORTEST_CREDENTIAL = 8

export class CredentialEcho {
  readonly #pieces: ReadonlySet<string>
  readonly #length: number

  /** So many characters in a row are taken for a piece of it, in its own spelling or a usual other one. */
  constructor(credential: Buffer | undefined, pieceChars: number) {
    const secret = credential?.toString('latin1').trim() ?? ''
    const spellings = [
      secret,
      encodeURIComponent(secret),
      Buffer.from(secret, 'latin1').toString('base64'),
      Buffer.from(secret, 'latin1').toString('hex'),
    ]
    this.#length = Math.min(pieceChars, secret.length)
    this.#pieces = new Set(
      secret.length < SHORTEST_CREDENTIAL
        ? []
        : spellings.flatMap((spelling) => pieces(spelling.toLowerCase(), this.#length)),
    )
  }

  isIn(words: string): boolean {
    if (this.#pieces.size === 0) return false
    const folded = words.toLowerCase()
    for (let at = 0; at + this.#length <= folded.length; at++)
      if (this.#pieces.has(folded.slice(at, at + this.#length))) return true
    return false
  }

  /** How much of a text may be the beginning of a piece that goes on in what comes next. */
  get overlap(): number {
    return this.#pieces.size === 0 ? 0 : this.#length - 1
  }
}

function pieces(spelling: string, length: number): string[] {
  return Array.from({ length: spelling.length - length + 1 }, (_, at) => spelling.slice(at, at + length))
}
