/** Reads an answer as it passes: what was used, whether it is whole, whether the provider itself broke it off. */
import type { Usage } from '../../../providers/conversation.ts'
import { writtenTokens } from '../../../providers/estimate.ts'
import { type Loose, parseAnswer } from '../json-members.ts'

type InputCounts = Omit<Extract<Usage, { source: 'measured' | 'estimated' }>, 'source' | 'outputTokens'>

export abstract class AnswerReader {
  /** The dialect's own end has come. */
  complete = false
  /** An error that the provider put into the stream: it is passed on as it is. */
  problem: Loose
  usage: Usage | undefined
  protected input: InputCounts | undefined
  writtenBytes = 0

  /** One event of a stream. Throws SyntaxError when it is not what the dialect says. */
  event(data: string): void {
    this.read(parseAnswer(data))
  }

  /** A whole answer that came at once. False: it is none in this dialect. */
  abstract whole(answer: Loose): boolean

  /** Nothing follows. */
  end(): void {}

  protected abstract read(event: Loose): void

  protected wrote(...texts: readonly Loose[]): void {
    for (const text of texts) if (typeof text === 'string') this.writtenBytes += Buffer.byteLength(text)
  }

  /** What the answer has cost so far, as far as it can be told. */
  spentSoFar(): Usage | undefined {
    if (this.usage !== undefined && this.usage.source !== 'absent') return this.usage
    if (this.input === undefined) return undefined
    return { source: 'estimated', ...this.input, outputTokens: writtenTokens(this.writtenBytes) }
  }
}

export function member(value: Loose, ...path: readonly (string | number)[]): Loose {
  let at = value
  for (const name of path) {
    if (typeof at !== 'object' || at === null) return undefined
    at = (at as Readonly<Record<string | number, Loose>>)[name]
  }
  return at
}

export function list(value: Loose): readonly Loose[] {
  return Array.isArray(value) ? value : []
}

/** An object that has this member. */
export function has(value: Loose, name: string): boolean {
  const found = member(value, name)
  return found !== undefined && found !== null
}
