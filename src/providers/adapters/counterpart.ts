/** The server that a call goes to: what errors call it, and what may be repeated of its words. */
import type { CraikError } from '../../errors.ts'
import type { CredentialMask } from '../../lib/credential-mask.ts'
import { redactBetween } from '../../receipts/redaction/redact-text.ts'
import type { Failure, FailureKind } from './adapter.ts'
import { providerFailure } from './failure.ts'
import { QUOTE_CHARS_MAX, QUOTE_CONTEXT_CHARS } from './limits.ts'

/** A model's name, as servers report it. */
const MODEL = /^[\w.:/@+-]{1,200}$/

export class Upstream {
  readonly #baseUrl: string
  /** Of the credentials that it is called with. */
  readonly mask: CredentialMask

  constructor(baseUrl: string, mask: CredentialMask) {
    this.#baseUrl = baseUrl
    this.mask = mask
  }

  fail(kind: FailureKind, what: string, facts: Partial<Omit<Failure, 'failure'>> = {}): CraikError {
    const host = URL.parse(this.#baseUrl)?.host ?? 'the configured base URL'
    return providerFailure(kind, `calling the model at ${host}: ${what}`, facts)
  }

  /** A 200 whose content is wrong. */
  garbage(what: string): CraikError {
    return this.fail('garbage', what, { status: 200 })
  }

  /** A provider's own words, in quotes after a colon: one short line without secrets; or nothing. */
  quote(words: string | undefined): string {
    if (words === undefined || words === '') return ''
    // A credential that begins in what is looked at ends in what is masked. Masking all of 16 MB takes seconds.
    const line = this.mask
      .maskText(words.slice(0, QUOTE_CONTEXT_CHARS + this.mask.span))
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
    return this.mask.maskText(name)
  }
}
