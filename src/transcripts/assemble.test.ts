/** Tests that the entries of readers become turns, within limits and without secrets. */
import { describe, expect, it } from 'vitest'
import { redactText } from '../receipts/redaction/redact.ts'
import { assemble } from './assemble.ts'
import { cleanText, type Redact } from './clean-text.ts'
import { slugOf } from './slug.ts'
import type { TranscriptEntry } from './transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'
import { all } from './transcripts.fixture.ts'

const assembleSteps = (...steps: readonly TranscriptEntry[]) =>
  assembleWith((text) => redactText(text).text, steps)

async function assembleWith(redact: Redact, steps: readonly TranscriptEntry[]) {
  async function* entries() {
    yield { type: 'begin', id: 'one' } as const
    yield* steps
  }
  return (await all(assemble(entries(), { harness: 'kimi', path: 'x', redact })))[0]
}

describe('secrets', () => {
  const hidden = ['gh', 'p_', 'a1B2c3D4e5F6g7H8i9J0'.repeat(2).slice(0, 36)].join('')
  const keys = [
    ['AK', 'IA', 'A1B2C3D4E5F6G7H8'],
    ['AI', 'za', 'a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H'],
    ['sk', '-', 'a1B2c3D4e5F6g7H8i9J0'.repeat(3).slice(0, 48)],
    ['github', '_pat_', 'a1B2c3D4e5F6g7H8i9J0a1', '_', 'a1B2c3D4e5F6g7H8i9J0'.repeat(3).slice(0, 59)],
  ].map((pieces) => pieces.join(''))

  it.each([hidden, ...keys])('are masked wherever they occur: %#', async (key) => {
    const found = await assembleSteps(
      { type: 'facts', title: `about ${key}`, cwd: `/w/${key}`, model: key },
      { type: 'user', text: `use ${key}` },
      { type: 'thinking', text: key },
      { type: 'text', text: `\x1b[1m${key.slice(0, 10)}\x1b[0m${key.slice(10)}` },
      { type: 'call', callId: 'c', name: key, input: { token: key, list: [`x ${key}`] } },
      { type: 'result', callId: 'c', output: `export KEY=${key}\n` },
    )
    expect(JSON.stringify(found)).not.toContain(key.slice(8))
    expect(found!.turns[1]!.parts).toHaveLength(3)
  })

  it('are masked at the point where a text is truncated', async () => {
    const { toolOutputChars } = TRANSCRIPT_LIMITS
    for (const before of [10, 20, 30]) {
      const output = `${'x'.repeat(toolOutputChars - before - 1)} ${hidden} ${'y'.repeat(50_000)}`
      const found = await assembleSteps(
        { type: 'call', callId: 'c', name: 'Bash', input: '' },
        { type: 'result', callId: 'c', output },
      )
      expect(JSON.stringify(found)).not.toContain(hidden.slice(0, 9))
    }
  })
})

describe('a conversation', () => {
  it('keeps the beginning of a long text, with a note', async () => {
    const found = await assembleSteps({
      type: 'user',
      text: 'x'.repeat(TRANSCRIPT_LIMITS.textChars + 100_000),
    })
    const [part] = found!.turns[0]!.parts
    expect(part?.type === 'text' && part.text).toMatch(/^x+\n… \(100,000 characters omitted\)$/)
  })

  it('has a limited length, however many turns there are', async () => {
    const long = 'word '.repeat(TRANSCRIPT_LIMITS.textChars / 5)
    const count = Math.ceil(TRANSCRIPT_LIMITS.conversationChars / long.length) + 3
    const found = await assembleWith(
      (text) => text,
      Array.from({ length: count }, () => ({ type: 'user', text: long }) as const),
    )
    expect(found!.turns.length).toBeLessThan(count)
    expect(found!.damage.cut).toBe(true)
    const many = Array.from(
      { length: TRANSCRIPT_LIMITS.turns + 5 },
      () => ({ type: 'user', text: 'x' }) as const,
    )
    expect((await assembleSteps(...many))!.turns).toHaveLength(TRANSCRIPT_LIMITS.turns)
  })

  it('has space again for what follows after turns were undone', async () => {
    const long = 'word '.repeat(TRANSCRIPT_LIMITS.textChars / 5)
    const full = Math.floor(TRANSCRIPT_LIMITS.conversationChars / long.length)
    const steps: TranscriptEntry[] = [{ type: 'user', text: 'first' }]
    for (let round = 0; round < 2; round++) {
      steps.push({ type: 'user', text: 'undone' })
      for (let n = 1; n < full; n++) steps.push({ type: 'text', text: long })
      steps.push({ type: 'call', callId: 'c', name: 'Bash', input: 'ls' })
      steps.push({ type: 'result', callId: 'c', output: 'x'.repeat(TRANSCRIPT_LIMITS.toolOutputChars) })
      steps.push({ type: 'undo', count: 1 })
    }
    const found = await assembleWith((text) => text, [...steps, { type: 'user', text: long }])
    expect(found!.turns.map(({ parts }) => parts.length)).toEqual([1, 1])
    expect(found!.damage.cut).toBe(false)
  })

  it('adds a result to its call, and ignores a result without a call', async () => {
    const found = await assembleSteps(
      { type: 'call', callId: 'a', name: 'A', input: {} },
      { type: 'call', callId: 'b', name: 'B', input: {} },
      { type: 'result', callId: 'b', output: 'of b', ok: false },
      { type: 'result', callId: 'nobody', output: 'x' },
      { type: 'user', text: 'more' },
      { type: 'result', callId: 'a', output: 'of a, late', ok: true },
    )
    expect(found!.turns[0]!.parts).toMatchObject([{ output: 'of a, late' }, { output: 'of b', ok: false }])
  })
})

describe('cleaned text', () => {
  it('contains only what is visible', () => {
    expect(cleanText('a\x1b[31mb\x1b]0;title\x07c\0\u202ed\r\ne\rf\u2028g\th')).toBe('abcd\ne\nf\ng\th')
    expect(cleanText('\ud800x')).toBe('\ufffdx')
  })
})

describe('a slug', () => {
  const slug = (text: string) =>
    slugOf({ harness: 'gemini', turns: [{ role: 'user', parts: [{ type: 'text', text }] }] })

  it('is safe, short, and made of the first words', () => {
    expect(slug('Why does the parser test fail?')).toBe('why-does-the-parser-test-fail')
    expect(slug('../../etc/passwd')).toBe('etc-passwd')
    expect(slug('déjà vu — naïve')).toBe('deja-vu-naive')
    expect(slug('日本語')).toBe('gemini')
    expect(slug('-'.repeat(500))).toBe('gemini')
    expect(slug('word '.repeat(40))).toMatch(/^(?:word-){11}word$/)
    expect(slug('x'.repeat(500))).toBe('x'.repeat(60))
  })
})
