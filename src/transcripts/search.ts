/** Searches conversations for a text. */
import type { Conversation, Part } from './conversation.ts'

export interface Match {
  /** Counted from 1. */
  readonly turn: number
  readonly role: 'user' | 'assistant'
  readonly where: 'text' | 'thinking' | 'tool'
  /** A single line. */
  readonly excerpt: string
}

const AROUND_CHARS = 40

/** Yields the first match in each part of each turn. Ignores case. */
export function* searchIn({ turns }: Conversation, wanted: string): Generator<Match> {
  // Text in lower case can have another length, so its indexes do not fit the original.
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'iu')
  for (const [i, { role, parts }] of turns.entries())
    for (const part of parts)
      for (const text of textsOf(part)) {
        const match = pattern.exec(text)
        if (match === null) continue
        yield { turn: i + 1, role, where: part.type, excerpt: excerptOf(text, match.index, match[0].length) }
        break
      }
}

function textsOf(part: Part): string[] {
  return part.type === 'tool' ? [part.name, part.input, part.output ?? ''] : [part.text]
}

function excerptOf(text: string, at: number, length: number): string {
  const from = Math.max(0, at - AROUND_CHARS)
  const to = Math.min(text.length, at + length + AROUND_CHARS)
  const cut = text.slice(from, to).toWellFormed().replace(/\s+/g, ' ').trim()
  return `${from > 0 ? '…' : ''}${cut}${to < text.length ? '…' : ''}`
}
