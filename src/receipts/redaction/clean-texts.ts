/** Remembers texts in which nothing was found: a log names the same sessions, providers and fields again and again. */
import { mayHoldSecret } from './find-secrets.ts'
import { redactText } from './redact-text.ts'

/** Longer texts are seldom the same twice. */
const LENGTH_MAX = 100
const REMEMBERED_MAX = 4096

export class CleanTexts {
  readonly #texts = new Set<string>()

  /** True when redacting the text would change nothing. */
  has(text: string): boolean {
    if (this.#texts.has(text)) return true
    if (mayHoldSecret(text) && redactText(text).text !== text) return false
    if (text.length > LENGTH_MAX) return true
    if (this.#texts.size >= REMEMBERED_MAX) this.#texts.clear()
    this.#texts.add(text)
    return true
  }
}
