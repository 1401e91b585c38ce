/**
 * Keeps the credential of a call out of its answer. What a model says is shown, kept in references and sent on; a
 * provider that repeats the key it was called with would have it written down for good.
 */
import { CredentialEcho } from '../adapters/credential-echo.ts'
import { providerFailure } from '../adapters/failure.ts'

/** Longer than what many keys have in common, so that an answer may speak about keys. */
const PIECE_CHARS = 16

export class AnswerGuard {
  readonly #echo: CredentialEcho
  #held = ''

  constructor(credential: Buffer | undefined) {
    this.#echo = new CredentialEcho(credential, PIECE_CHARS)
  }

  /** What may be passed on now. The end of a text is held back until it cannot be the beginning of the key. */
  text(piece: string): string {
    const text = this.#held + piece
    this.check(text)
    const end = Math.max(0, text.length - this.#echo.overlap)
    // Whoever writes each piece as it comes would write half a character as none.
    const safe = end > 0 && /[\uD800-\uDBFF]/.test(text[end - 1]!) ? end - 1 : end
    this.#held = text.slice(safe)
    return text.slice(0, safe)
  }

  /** What was held back, once nothing follows. */
  rest(): string {
    const text = this.#held
    this.#held = ''
    return text
  }

  check(words: string): void {
    if (!this.#echo.isIn(words)) return
    throw providerFailure(
      'garbage',
      'the answer repeats the credential that it was called with, and is withheld: replace that key',
      {
        status: 200,
      },
    )
  }
}
