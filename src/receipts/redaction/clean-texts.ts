/** Caches texts without findings, because a log repeats the same sessions, providers and fields. */
import { quoteJson } from '../../lib/canonical-json.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { mayHoldSecret } from './find-secrets.ts'
import { redactText } from './redact-text.ts'

/** Longer texts rarely repeat. */
const LENGTH_MAX = 100
/** The size of each generation. */
const REMEMBERED_MAX = 2048

export interface CleanText {
  /** The text as a JSON string. */
  readonly quoted: string
  readonly isReference: boolean
}

export class CleanTexts {
  /** Two generations, so that frequent texts outlive ids that occur once. */
  #young = new Map<string, CleanText>()
  #old = new Map<string, CleanText>()

  /** Returns true when redaction would not change the text. */
  has(text: string): boolean {
    return this.get(text) !== undefined || (!text.isWellFormed() && isClean(text))
  }

  /** Returns `undefined` when redaction would change the text or JSON cannot represent it. */
  get(text: string): CleanText | undefined {
    const known = this.#young.get(text)
    if (known !== undefined) return known
    const clean = this.#old.get(text) ?? checkText(text)
    if (clean !== undefined && text.length <= LENGTH_MAX) this.#remember(text, clean)
    return clean
  }

  #remember(text: string, clean: CleanText): void {
    if (this.#young.size >= REMEMBERED_MAX) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(text, clean)
  }
}

function checkText(text: string): CleanText | undefined {
  if (!text.isWellFormed() || !isClean(text)) return undefined
  return { quoted: quoteJson(text), isReference: REFERENCE.test(text) }
}

function isClean(text: string): boolean {
  return !mayHoldSecret(text) || redactText(text).text === text
}
