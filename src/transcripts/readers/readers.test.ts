/**
 * Tests that the line-based transcripts of four programs become the same conversation, whatever happened to the file.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Conversation, type TranscriptHarness, turnText } from '../conversation.ts'
import { findConversations } from '../find-transcripts.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import {
  all,
  FOLDER,
  jsonl,
  LINES,
  memoryHome,
  PATHS,
  type TranscriptExchange,
  TWO,
} from '../transcripts.fixture.ts'

type LineHarness = keyof typeof LINES
const HARNESSES = Object.keys(LINES) as LineHarness[]

async function conversationsOf(
  harness: TranscriptHarness,
  content: string | Buffer,
  more: Record<string, string> = {},
): Promise<Conversation[]> {
  const signal = new AbortController().signal
  const source = memoryHome({ [PATHS[harness]]: content, ...more }, 1000)
  return all(findConversations({ source, signal, redact: (text) => text, harnesses: [harness] }))
}

/** Returns the text of each turn. */
const describeTurns = (conversation: Conversation | undefined) =>
  (conversation?.turns ?? []).map((turn) => `${turn.role}: ${turnText(turn)}`)

const SPOKEN = [
  'user: why does the parser test fail?',
  'assistant: I will run it.\n\nThe lexer drops a trailing comment.',
  'user: then mend it',
  'assistant: It is mended.',
]

describe.each(HARNESSES)('%s', (harness) => {
  const content = jsonl(LINES[harness](TWO))

  it('is read into turns, with thoughts and tools in order, and without text that the program added', async () => {
    const more = { '.gemini/tmp/workspace/.project_root': FOLDER }
    const [found, ...others] = await conversationsOf(harness, content, more)
    expect(others).toEqual([])
    expect(found).toMatchObject({ harness, path: PATHS[harness], cwd: FOLDER, model: 'model-1' })
    expect(found!.id).toContain('7c9e6679-7425-40de-944b-e07fc1f90ae7')
    expect(describeTurns(found)).toEqual(SPOKEN)
    expect(new Date(found!.startedAtMs!).toISOString()).toMatch(/^2026-11-15T09:12:4/)
    expect(found!.usage!.outputTokens).toBeGreaterThanOrEqual(14)
    expect(found!.damage).toEqual({ damaged: 0, oversized: 0, unfinished: false, cut: false })
    expect(found!.turns[1]!.parts.map(({ type }) => type)).toEqual(['thinking', 'text', 'tool', 'text'])
    const tool = found!.turns[1]!.parts[2]!
    expect(tool).toMatchObject({ type: 'tool', output: 'one test failed', ok: true })
    expect(tool.type === 'tool' && tool.input).toContain('npm test -- parser')
  })

  it('reports a failed tool', async () => {
    const tool = { runs: 'false', output: 'it failed', failed: true }
    const [found] = await conversationsOf(harness, jsonl(LINES[harness]([{ ...TWO[0]!, tool }])))
    expect(found!.turns[1]!.parts[2]).toMatchObject({ ok: false, output: 'it failed' })
  })

  it('is read up to an incomplete last line', async () => {
    const lines = content.trimEnd().split('\n')
    const cut = `${lines.slice(0, -1).join('\n')}\n${lines.at(-1)!.slice(0, 20)}`
    const [found] = await conversationsOf(harness, cut)
    expect(found!.damage).toMatchObject({ unfinished: true, damaged: 0 })
    expect(describeTurns(found).slice(0, 3)).toEqual(SPOKEN.slice(0, 3))
  })

  it('truncated at any byte never throws, and loses no earlier turn', async () => {
    const bytes = Buffer.from(content)
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length), async (length) => {
        const [found] = await conversationsOf(harness, bytes.subarray(0, length))
        const output = describeTurns(found)
        for (const [i, turn] of output.entries()) expect(SPOKEN[i]!.startsWith(turn)).toBe(true)
        if (output.length > 1) expect(output.slice(0, -1)).toEqual(SPOKEN.slice(0, output.length - 1))
      }),
      { numRuns: 150 },
    )
  })

  it('with lines that are damaged in any way never throws, and keeps all other lines', async () => {
    const many: TranscriptExchange[] = Array.from({ length: 6 }, (_, i) => ({
      prompt: `ask ${i}`,
      answer: `say ${i}`,
    }))
    const lines = jsonl(LINES[harness](many)).trimEnd().split('\n')
    const damage = fc.oneof(
      fc.constantFrom(
        '',
        '{',
        'null',
        '[]',
        '42',
        '"x"',
        '{}',
        '\0\0\0',
        '{"type":1}',
        '{"$set":1}',
        '{"$rewindTo":1}',
      ),
      fc.json({ maxDepth: 3 }),
      fc
        .record({
          type: fc.constantFrom('user', 'assistant', 'gemini', 'response_item'),
          message: fc.jsonValue(),
        })
        .map((value) => JSON.stringify(value)),
    )
    await fc.assert(
      fc.asyncProperty(fc.nat(lines.length), damage, async (where, text) => {
        const [found] = await conversationsOf(harness, lines.toSpliced(where, 0, text).join('\n'))
        expect(describeTurns(found)).toEqual(
          many.flatMap(({ prompt, answer }) => [`user: ${prompt}`, `assistant: ${answer}`]),
        )
      }),
      { numRuns: 150 },
    )
  })

  it('with a missing line loses at most the content of that line', async () => {
    const many: TranscriptExchange[] = Array.from({ length: 5 }, (_, i) => ({
      prompt: `ask ${i}`,
      answer: `say ${i}`,
    }))
    const lines = LINES[harness](many)
    for (const i of lines.keys()) {
      const [found] = await conversationsOf(harness, jsonl(lines.toSpliced(i, 1)))
      const words = describeTurns(found).join(' ')
      const stored = many.filter(({ prompt, answer }) => words.includes(prompt) && words.includes(answer))
      expect(stored.length).toBeGreaterThanOrEqual(many.length - 1)
    }
  })

  it('skips a line that is too long to read', async () => {
    const long = `{"type":"x","x":"${'y'.repeat(TRANSCRIPT_LIMITS.lineBytes)}"}\n`
    const [found] = await conversationsOf(harness, long + content)
    expect(describeTurns(found)).toEqual(SPOKEN)
    expect(found!.damage.oversized).toBe(1)
  })

  it('with ten thousand turns is read completely', async () => {
    const many: TranscriptExchange[] = Array.from({ length: 5000 }, (_, i) => ({
      prompt: `ask ${i}`,
      answer: `say ${i}`,
    }))
    const [found] = await conversationsOf(harness, jsonl(LINES[harness](many)))
    expect(found!.turns).toHaveLength(10_000)
    expect(describeTurns(found).at(-1)).toBe('assistant: say 4999')
  })

  it('with deeply nested tool input is still read', async () => {
    const deep = '['.repeat(50_000) + ']'.repeat(50_000)
    const [found] = await conversationsOf(harness, content.replace('"npm test -- parser"', deep))
    expect(describeTurns(found)).toEqual(SPOKEN)
  })
})
