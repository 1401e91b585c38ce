/** Recognises the credential of a call in what comes back: servers echo it, by accident or to have it written down. */

/** Shorter values would be found in any text. */
const SHORTEST_CREDENTIAL = 8
/** In texts up to this length, such as headers, looking each piece up costs less than listing all that there are. */
const SHORT_TEXT = 256

export class CredentialEcho {
  /** In lower case; none for a credential that is too short to look for. */
  readonly #spellings: readonly string[]
  readonly #length: number
  #pieces: ReadonlySet<string> | undefined

  /** So many characters in a row are taken for a piece of it, in its own spelling or a usual other one. */
  constructor(credential: Buffer | undefined, pieceChars: number) {
    const secret = credential?.toString('latin1').trim() ?? ''
    this.#length = Math.min(pieceChars, secret.length)
    this.#spellings = secret.length < SHORTEST_CREDENTIAL ? [] : spellingsOf(secret)
  }

  isIn(words: string): boolean {
    if (this.#spellings.length === 0) return false
    const folded = words.toLowerCase()
    const isPiece = folded.length > SHORT_TEXT ? this.#listed() : this.#lookedUp
    for (let at = 0; at + this.#length <= folded.length; at++)
      if (isPiece(folded.slice(at, at + this.#length))) return true
    return false
  }

  /** How much of a text may be the beginning of a piece that goes on in what comes next. */
  get overlap(): number {
    return this.#spellings.length === 0 ? 0 : this.#length - 1
  }

  readonly #lookedUp = (piece: string): boolean => this.#spellings.some((each) => each.includes(piece))

  #listed(): (piece: string) => boolean {
    const pieces = this.#pieces ?? new Set(this.#spellings.flatMap((each) => piecesOf(each, this.#length)))
    this.#pieces = pieces
    return (piece) => pieces.has(piece)
  }
}

function spellingsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'latin1')
  return [secret, encodeURIComponent(secret), bytes.toString('base64'), bytes.toString('hex')].map((each) =>
    each.toLowerCase(),
  )
}

function piecesOf(spelling: string, length: number): string[] {
  return Array.from({ length: spelling.length - length + 1 }, (_, at) => spelling.slice(at, at + length))
}
