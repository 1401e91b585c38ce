/** Remembers texts in which nothing was found: a log names the same sessions, providers and fields again and again. */
import { quoteJson } from '../../lib/canonical-json.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { mayHoldSecret } from './find-secrets.ts'
import { redactText } from './redact-text.ts'

/** Longer texts are seldom the same twice. */
const LENGTH_MAX = 100
/** Of each generation. */
const REMEMBERED_MAX = 2048

export interface CleanText {
  /** As JSON spells it. */
  readonly quoted: string
  readonly isReference: boolean
}

export class CleanTexts {
  /** Two generations, so that what is used again and again outlives the ids that come once. */
  #young = new Map<string, CleanText>()
  #old = new Map<string, CleanText>()

  /** True when redacting the text would change nothing. */
  has(text: string): boolean {
    return this.get(text) !== undefined || (!text.isWellFormed() && isClean(text))
  }

  /** Undefined when redacting the text would change it, and for what JSON cannot spell. */
  get(text: string): CleanText | undefined {
    const known = this.#young.get(text)
    if (known !== undefined) return known
    const clean = this.#old.get(text) ?? judged(text)
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

function judged(text: string): CleanText | undefined {
  if (!text.isWellFormed() || !isClean(text)) return undefined
  return { quoted: quoteJson(text), isReference: REFERENCE.test(text) }
}

function isClean(text: string): boolean {
  return !mayHoldSecret(text) || redactText(text).text === text
}
