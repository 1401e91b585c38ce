/** A credential that comes back in an answer: what holds it is not passed on. */
import { CraikError } from '../../errors.ts'

export class SecretEcho {
  readonly #needles: readonly Buffer[]
  readonly #overlap: number

  /** As headers carry it; what stands behind the scheme is looked for as it is and in base64. */
  constructor(authorizations: readonly string[]) {
    const values = authorizations.map((value) => value.slice(value.indexOf(' ') + 1))
    const spelled = values.flatMap((value) => [
      value,
      encodeURIComponent(value),
      // How it begins depends on what stands before it: the inner part is the same.
      ...[0, 1, 2].map((before) =>
        Buffer.concat([Buffer.alloc(before), Buffer.from(value)])
          .toString('base64')
          .slice(Math.ceil((before * 4) / 3), -4),
      ),
    ])
    this.#needles = [...new Set(spelled)].filter(({ length }) => length >= 8).map((text) => Buffer.from(text))
    this.#overlap = Math.max(0, ...this.#needles.map(({ length }) => length - 1))
  }

  refuse(bytes: Buffer): void {
    if (this.#needles.some((needle) => bytes.includes(needle)))
      throw new CraikError('provider_failed', 'the answer repeats the credential that it was asked with')
  }

  /** The same bytes; so many are held back until more come as the beginning of one could be. */
  async *without(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let held: Buffer = Buffer.alloc(0)
    for await (const chunk of chunks) {
      const both = Buffer.concat([held, chunk])
      this.refuse(both)
      const free = Math.max(0, both.length - this.#overlap)
      held = both.subarray(free)
      if (free > 0) yield both.subarray(0, free)
    }
    if (held.length > 0) yield held
  }
}
