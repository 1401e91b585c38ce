/**
 * Reads a response while it is forwarded: its usage, whether it is complete, and whether the provider reported an
 * error.
 */
import type { Usage } from '../../../providers/conversation.ts'
import { estimateOutputTokens } from '../../../providers/estimate.ts'
import { type Loose, parseAnswer } from '../json-members.ts'

type InputCounts = Omit<Extract<Usage, { source: 'measured' | 'estimated' }>, 'source' | 'outputTokens'>

export abstract class AnswerReader {
  /** Whether the dialect's final event has arrived. */
  complete = false
  /** The provider's own error in the stream, which is forwarded unchanged. */
  problem: Loose
  usage: Usage | undefined
  protected input: InputCounts | undefined
  writtenBytes = 0

  /** Reads one event of a stream. Throws SyntaxError when it does not match the dialect. */
  event(data: string): void {
    this.read(parseAnswer(data))
  }

  /** Reads a complete response. Returns `false` when it does not match the dialect. */
  abstract whole(answer: Loose): boolean

  /** Called when the stream ends. */
  end(): void {}

  protected abstract read(event: Loose): void

  protected wrote(...texts: readonly Loose[]): void {
    for (const text of texts) if (typeof text === 'string') this.writtenBytes += Buffer.byteLength(text)
  }

  /** Returns the usage so far, if it is known. */
  readUsage(): Usage | undefined {
    if (this.usage !== undefined && this.usage.source !== 'absent') return this.usage
    if (this.input === undefined) return undefined
    return { source: 'estimated', ...this.input, outputTokens: estimateOutputTokens(this.writtenBytes) }
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

/** Returns whether the value is an object with this member. */
export function has(value: Loose, name: string): boolean {
  const found = member(value, name)
  return found !== undefined && found !== null
}
