/** The server that a call goes to: what errors call it, and what may be repeated of its words. */
import type { CraikError } from '../../errors.ts'
import { redactBetween } from '../../receipts/redaction/redact-text.ts'
import type { Endpoint, Failure, FailureKind } from './adapter.ts'
import { providerFailure } from './failure.ts'
import { QUOTE_CHARS_MAX, QUOTE_CONTEXT_CHARS } from './limits.ts'

/** So many characters of a credential in a row are taken for a piece of it. */
const PIECE_CHARS = 8
/** A model's name, as servers report it. */
const MODEL = /^[\w.:/@+-]{1,200}$/

export class Counterpart {
  readonly #host: string
  readonly #credential: Buffer | undefined

  constructor(endpoint: Endpoint) {
    this.#host = URL.parse(endpoint.baseUrl)?.host ?? 'the configured base URL'
    this.#credential = endpoint.credential
  }

  fail(kind: FailureKind, what: string, facts: Partial<Omit<Failure, 'failure'>> = {}): CraikError {
    return providerFailure(kind, `calling the model at ${this.#host}: ${what}`, facts)
  }

  /** A 200 whose content is wrong. */
  garbage(what: string): CraikError {
    return this.fail('garbage', what, { status: 200 })
  }

  /** A provider's own words, in quotes after a colon: one short line without secrets; or nothing. */
  quote(words: string | undefined): string {
    if (words === undefined || words === '') return ''
    if (this.#repeatsCredential(words)) return ' (its message repeats the credential and is withheld)'
    const line = words
      .slice(0, QUOTE_CONTEXT_CHARS)
      .replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]+/gu, ' ')
      .trim()
    // A secret may begin in what is shown and end in what is not.
    const { text } = redactBetween('', line.slice(0, QUOTE_CHARS_MAX), line.slice(QUOTE_CHARS_MAX))
    return `: “${text}${line.length > QUOTE_CHARS_MAX ? '…' : ''}”`
  }

  /** The model's name as the server gives it, if it is one. */
  modelName(name: string | null | undefined): string | undefined {
    if (name === null || name === undefined || !MODEL.test(name)) return undefined
    return this.#repeatsCredential(name) ? undefined : name
  }

  /** A piece is enough, and so is a piece in another spelling: servers like to show "the first characters". */
  #repeatsCredential(words: string): boolean {
    if (this.#credential === undefined) return false
    const secret = this.#credential.toString('latin1').trim()
    const spellings = [
      secret,
      encodeURIComponent(secret),
      Buffer.from(secret, 'latin1').toString('base64'),
      Buffer.from(secret, 'latin1').toString('hex'),
    ]
    const folded = words.toLowerCase()
    return spellings.some((spelling) =>
      pieces(spelling.toLowerCase()).some((piece) => folded.includes(piece)),
    )
  }
}

function pieces(secret: string): string[] {
  if (secret.length <= PIECE_CHARS) return secret === '' ? [] : [secret]
  return Array.from({ length: secret.length - PIECE_CHARS + 1 }, (_, at) =>
    secret.slice(at, at + PIECE_CHARS),
  )
}
