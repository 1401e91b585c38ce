import { describe, expect, it } from 'vitest'
import type { Conversation } from './conversation.ts'
import { searchIn } from './search.ts'

function search(text: string, wanted: string): string[] {
  const conversation = {
    harness: 'codex',
    id: 'one',
    path: 'one.jsonl',
    turns: [{ role: 'user', parts: [{ type: 'text', text }] }],
    damage: { damaged: 0, oversized: 0, unfinished: false, cut: false },
  } satisfies Conversation
  return [...searchIn(conversation, wanted)].map(({ excerpt }) => excerpt)
}

describe('searchIn', () => {
  it.each([
    ['The Login fails', 'login'],
    ['the login fails', 'LOGIN'],
    ['die STRASSE am Fluß', 'fluß'],
    ['a price of $1.50 (about)', '$1.50 ('],
    ['the rules of TÜRKİYE', 'türkİye'],
  ])('finds in %j, ignoring case: %j', (text, wanted) => {
    expect(search(text, wanted)).toEqual([text])
  })

  it('does not read the wanted text as a pattern', () => {
    expect(search('the login fails', 'l.gin')).toEqual([])
  })

  it('shows the text around a match', () => {
    const [before, after] = ['b'.repeat(100), 'a'.repeat(100)]
    expect(search(`${before} here ${after}`, 'HERE')).toEqual([`…${'b'.repeat(39)} here ${'a'.repeat(39)}…`])
  })

  it('shows the match after letters whose lower case is longer', () => {
    const before = 'İ'.repeat(100)
    expect(search(`${before} here ${'a'.repeat(100)}`, 'here')).toEqual([
      `…${'İ'.repeat(39)} here ${'a'.repeat(39)}…`,
    ])
  })
})
