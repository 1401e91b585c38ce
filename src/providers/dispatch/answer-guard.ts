/**
 * Keeps the credential of a call out of its answer. Craik shows what a model says, stores it in references and sends it on. A
 * provider that repeats the key it was called with would have it stored for good.
 */
import { CredentialMask } from '../../lib/credential-mask.ts'
import type { ToolCall } from '../conversation.ts'

export class AnswerGuard {
  readonly #mask: CredentialMask
  readonly #text: ReturnType<CredentialMask['stream']>

  constructor(credential: Buffer | undefined) {
    this.#mask = new CredentialMask([credential])
    this.#text = this.#mask.stream()
  }

  /** The text that may be passed on now: a word that is not over waits for its end. */
  text(piece: string): string {
    return this.#text.feedText(piece)
  }

  /** The text that waited, once nothing follows. */
  rest(): string {
    return this.#text.flush().toString()
  }

  call(call: ToolCall): ToolCall {
    const json = JSON.stringify(call)
    const masked = this.#mask.maskText(json)
    return masked === json ? call : (JSON.parse(masked) as ToolCall)
  }
}
