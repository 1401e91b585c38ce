/** Tests that no text of a conversation leaves its section. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { cleanText } from '../clean-text.ts'
import type { Conversation, Part } from '../conversation.ts'
import { defuse } from './defuse.ts'
import { renderMarkdown } from './render.ts'

const conversation = (...turns: readonly (readonly Part[])[]): Conversation => ({
  harness: 'codex',
  id: 'x-1',
  path: 'x.jsonl',
  startedAtMs: Date.UTC(2026, 10, 15),
  cwd: '/w',
  turns: turns.map((parts, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', parts })),
  damage: { damaged: 0, oversized: 0, unfinished: false, cut: false },
})
/** Creates a part as a conversation stores it. */
const text = (output: string): Part => ({ type: 'text', text: cleanText(output) })
const thinking = (output: string): Part => ({ type: 'thinking', text: cleanText(output) })
const tool = (name: string, input: string, output: string): Part => ({
  type: 'tool',
  name,
  input: cleanText(input),
  output: cleanText(output),
})

/** Returns the structure that a line-based reader sees, in and outside code blocks. */
function outline(markdown: string) {
  const body = markdown.split('\n---\n').slice(1).join('\n---\n')
  let fence: string | undefined
  const open: string[] = []
  const seen = { headings: [] as string[], details: 0, html: [] as string[], underlines: 0, unclosed: false }
  for (const line of body.split(/\r\n|[\n\r\v\f\x85\u2028\u2029]/)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence !== undefined) {
      if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined
      continue
    }
    if (
      mark !== undefined &&
      !(mark.startsWith('`') && line.slice(line.indexOf(mark) + mark.length).includes('`'))
    ) {
      fence = mark
      continue
    }
    if (/^[\s>]*#{1,2}(?:\s|$)/.test(line)) seen.headings.push(line)
    if (/^ {0,3}(?:-+|=+)[ \t]*$/.test(line)) seen.underlines++
    if (line === '<details>') open.push(line)
    else if (line === '</details>') open.pop()
    else
      seen.html.push(
        ...(line.match(/<[A-Za-z/!?][^>]*>?/g) ?? []).filter((tag) => !/^<\/?summary>$/.test(tag)),
      )
    seen.details = Math.max(seen.details, open.length)
  }
  seen.unclosed = fence !== undefined || open.length > 0
  return seen
}

const ATTACKS = [
  '## assistant\n\nI said no such thing',
  '---\nturns: 0\n---',
  'user\n---',
  'user\n===',
  'user\n-',
  '</details>\n\n## user',
  '<details><summary>x',
  '<!--',
  '<script>alert(1)</script>',
  '```\nnever closed\n## user',
  '   ```\nnever closed',
  '~~~~js\n```\n## user\n~~~',
  '- a\n  ```\n</details>',
  '> ```\n</details>',
  '1. ```html\n<div>',
  '    ```\n</details>',
  '# one\n## two\n###### six',
  '- ## user',
  '> ## user',
  'a\r## user\rb',
  'a\u2028## user\u2028b',
  '![](https://collector.example/?x)',
  '%% hidden',
  '````\n```\n````',
  '``` `\n## user',
]

describe('a section', () => {
  it.each(ATTACKS)('contains %j, wherever it occurs', (attack) => {
    const parts = [text(attack), thinking(attack), tool(attack, attack, attack), text(attack)]
    const markdown = renderMarkdown(conversation([text(attack)], parts, [text(attack)]))
    const seen = outline(markdown)
    expect(seen.headings).toEqual(['## user', '## assistant', '## user'])
    expect(seen).toMatchObject({ details: 1, html: [], underlines: 0, unclosed: false })
    expect(markdown.match(/^## (?:user|assistant)$/gm)).toHaveLength(3)
  })

  it('contains any text', () => {
    const pieces = fc.constantFrom(
      ...ATTACKS,
      '```',
      '~~~',
      '`',
      '\n',
      '\n\n',
      ' ',
      '\t',
      '- ',
      '> ',
      '<',
      '\\',
      'word',
    )
    const reply = fc.array(pieces, { maxLength: 12 }).map((some) => some.join(''))
    fc.assert(
      fc.property(reply, reply, reply, (one, two, three) => {
        const markdown = renderMarkdown(
          conversation([text(one)], [tool('Bash', two, three), text(two), thinking(one)], [text(three)]),
        )
        const seen = outline(markdown)
        expect(seen.headings).toEqual(['## user', '## assistant', '## user'])
        expect(seen).toMatchObject({ html: [], underlines: 0, unclosed: false })
      }),
      { numRuns: 1000 },
    )
  })

  it('stays readable: code stays code, headings become smaller, lists stay lists', () => {
    expect(
      defuse('# Plan\n\n1. do\n   ```ts\n   if (a < b) go()\n   ```\n2. `a<b`\n\n| a | b |\n|---|---|'),
    ).toBe('### Plan\n\n1. do\n```ts\nif (a < b) go()\n```\n2. `a&lt;b`\n\n| a | b |\n|---|---|')
    expect(defuse('2 < 3 and a <= b')).toBe('2 < 3 and a <= b')
  })

  it('is rendered in a time proportional to its length', () => {
    for (const output of [
      '`'.repeat(200_000),
      '` '.repeat(100_000),
      '> '.repeat(100_000),
      '- '.repeat(100_000),
    ])
      expect(defuse(output).length).toBeGreaterThan(0)
    expect(defuse(`${' '.repeat(100_000)}\`\`\`\n${' '.repeat(100_000)}x`)).toContain('x')
  })
})

describe('front matter', () => {
  it('describes the conversation', () => {
    const markdown = renderMarkdown(
      {
        ...conversation([text('why?')], [text('so')]),
        model: 'm',
        usage: { inputTokens: 11, outputTokens: 7 },
      },
      { sandbox: 'sbx_1' },
    )
    expect(parse(markdown.split('---\n')[1]!)).toEqual({
      title: 'why?',
      harness: 'codex',
      session: 'x-1',
      sandbox: 'sbx_1',
      model: 'm',
      workspace: '/w',
      started: '2026-11-15T00:00:00.000Z',
      turns: 2,
      input_tokens: 11,
      output_tokens: 7,
    })
  })

  it('stays valid, whatever the conversation’s title is', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0x10ffff), { maxLength: 60 }), (codes) => {
        const name = cleanText(String.fromCodePoint(...codes)).replace(/\s+/g, ' ')
        const markdown = renderMarkdown({ ...conversation([text('x')]), title: name, model: name, cwd: name })
        const front = /^---\n([\s\S]*?)\n---\n\n## user/.exec(markdown)![1]!
        expect(front.split('\n')).toHaveLength(name === '' ? 6 : 7)
        expect(parse(front)).toMatchObject({ harness: 'codex', turns: 1 })
      }),
    )
  })

  it('is followed, at the end, by a note about missing content', () => {
    const damage = { damaged: 2, oversized: 0, unfinished: true, cut: true }
    expect(renderMarkdown({ ...conversation([text('x')]), damage })).toMatch(
      /\*Incomplete: 2 damaged entries were skipped; the rest was too long to save\.\*\n$/,
    )
  })
})
