/** Reads lines of JSON that can be damaged, endless or incomplete. */
import { z } from 'zod'
import type { Damage } from './conversation.ts'

export interface LineOptions {
  readonly maxLineBytes: number
}

const NEWLINE = 0x0a
const BLANK = /^[\s\0]*$/

/**
 * Yields each line that is valid JSON, with its length. Counts and skips other lines. A last line without a line break
 * is used only when it is complete. At most one line is in memory.
 */
export class JsonLines {
  readonly #chunks: AsyncIterable<Uint8Array>
  readonly #maxLineBytes: number
  #damaged = 0
  #oversized = 0
  #unfinished = false
  #bytes = 0

  constructor(chunks: AsyncIterable<Uint8Array>, { maxLineBytes }: LineOptions) {
    this.#chunks = chunks
    this.#maxLineBytes = maxLineBytes
  }

  /** The damage in the lines that were read so far. */
  get damage(): Omit<Damage, 'cut'> {
    return { damaged: this.#damaged, oversized: this.#oversized, unfinished: this.#unfinished }
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Counts a line that is JSON but has an unknown structure. */
  countDamaged(): void {
    this.#damaged++
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<{ readonly value: unknown; readonly bytes: number }> {
    let pieces: Uint8Array[] = []
    let held = 0
    let skipping = false
    let length = 0
    const take = (piece: Uint8Array) => {
      if (skipping || piece.length === 0) return
      held += piece.length
      if (held > this.#maxLineBytes) {
        skipping = true
        pieces = []
      } else pieces.push(piece)
    }
    const finish = () => {
      const line = skipping ? undefined : Buffer.concat(pieces).toString('utf8')
      if (skipping) this.#oversized++
      pieces = []
      length = held
      held = 0
      skipping = false
      return line
    }
    for await (const chunk of this.#chunks) {
      this.#bytes += chunk.length
      let from = 0
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
        take(chunk.subarray(from, at))
        from = at + 1
        const line = finish()
        if (line === undefined || BLANK.test(line)) continue
        const value = parseLine(line)
        if (value === undefined) this.#damaged++
        else yield { value: value.value, bytes: length }
      }
      take(chunk.subarray(from))
    }
    if (held === 0) return
    const line = finish()
    if (line === undefined || BLANK.test(line)) return
    const value = parseLine(line)
    if (value === undefined) this.#unfinished = true
    else yield { value: value.value, bytes: length }
  }
}

function parseLine(line: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(line.startsWith('\ufeff') ? line.slice(1) : line) }
  } catch {
    return undefined
  }
}

/** A field that can be missing, and is checked later. */
export const anything = z.unknown().optional()

/** Returns the value as the schema parses it, or undefined. */
export function parseWith<T extends z.ZodType>(schema: T, value: unknown): z.output<T> | undefined {
  const result = schema.safeParse(value)
  return result.success ? result.data : undefined
}
