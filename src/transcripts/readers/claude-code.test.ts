/** Tests Claude Code's tree of messages. */
import { describe, expect, it } from 'vitest'
import { type Conversation, turnText } from '../conversation.ts'
import { findConversations } from '../find-transcripts.ts'
import { all, claudeLines, jsonl, memoryHome, PATHS, SESSION } from '../transcripts.fixture.ts'

async function read(
  lines: readonly object[],
  path = PATHS['claude-code'],
): Promise<Conversation | undefined> {
  const signal = new AbortController().signal
  const source = memoryHome({ [path]: jsonl(lines) })
  const options = { source, signal, redact: (text: string) => text }
  return (await all(findConversations(options)))[0]
}
const turnTexts = (conversation: Conversation | undefined) => conversation?.turns.map(turnText)

const user = (uuid: string, parentUuid: string | null, content: unknown, more = {}) => ({
  type: 'user',
  uuid,
  parentUuid,
  isSidechain: false,
  message: { role: 'user', content },
  ...more,
})
const assistant = (uuid: string, parentUuid: string | null, block: object, id = uuid, more = {}) => ({
  type: 'assistant',
  uuid,
  parentUuid,
  isSidechain: false,
  message: { id, role: 'assistant', model: 'model-1', content: [block] },
  ...more,
})
const words = (text: string) => ({ type: 'text', text })

describe('the message tree', () => {
  it('is read along the branch with the last message', async () => {
    const found = await read([
      user('a', null, 'first'),
      assistant('b', 'a', words('one')),
      user('c', 'b', 'a mistake'),
      assistant('d', 'c', words('a wrong answer')),
      user('e', 'b', 'what was meant'),
      assistant('f', 'e', words('two')),
    ])
    expect(turnTexts(found)).toEqual(['first', 'one', 'what was meant', 'two'])
  })

  it('excludes the messages of subagents', async () => {
    const aside = { isSidechain: true }
    const found = await read([
      user('a', null, 'first'),
      user('s', null, 'do a part of it', aside),
      assistant('t', 's', words('a part'), 't', aside),
      assistant('b', 'a', words('one')),
    ])
    expect(turnTexts(found)).toEqual(['first', 'one'])
    expect(await read([user('a', null, 'x')], '.claude/projects/-x/agent-1.jsonl')).toBeUndefined()
    expect(
      await read([user('a', null, 'x')], `.claude/projects/-x/${SESSION}/subagents/agent-1.jsonl`),
    ).toBeUndefined()
  })

  it('excludes what the program adds after a cancelled prompt', async () => {
    const found = await read([
      user('a', null, 'first'),
      assistant('b', 'a', { type: 'tool_use', id: 'one', name: 'Bash', input: { command: 'sleep 9' } }),
      user('c', 'b', [words('[Request interrupted by user for tool use]')]),
      assistant('d', 'c', words('No response requested.'), 'd', {
        message: {
          id: 'd',
          role: 'assistant',
          model: '<synthetic>',
          content: [words('No response requested.')],
        },
      }),
      user('e', 'd', 'then this'),
      user('f', 'e', '[Request interrupted by user]'),
    ])
    expect(found?.turns.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
  })

  it('includes the results of parallel tool calls, whose branches end there', async () => {
    const call = (id: string) => ({ type: 'tool_use', id, name: 'Read', input: { path: id } })
    const result = (id: string) => [{ type: 'tool_result', tool_use_id: id, content: [words(`of ${id}`)] }]
    const found = await read([
      user('a', null, 'read both'),
      assistant('b', 'a', call('one'), 'answer'),
      assistant('c', 'b', call('two'), 'answer'),
      user('d', 'b', result('one')),
      user('e', 'c', result('two')),
      assistant('f', 'e', words('read')),
    ])
    expect(found!.turns[1]!.parts).toMatchObject([
      { output: 'of one' },
      { output: 'of two' },
      { text: 'read' },
    ])
  })

  it('continues before a compaction, and excludes its summary', async () => {
    const boundary = {
      type: 'system',
      subtype: 'compact_boundary',
      uuid: 'x',
      parentUuid: null,
      logicalParentUuid: 'b',
    }
    const found = await read([
      user('a', null, 'first'),
      assistant('b', 'a', words('one')),
      boundary,
      user('y', 'x', 'the story so far', { isCompactSummary: true }),
      user('c', 'y', 'second'),
      assistant('d', 'c', words('two')),
    ])
    expect(turnTexts(found)).toEqual(['first', 'one', 'second', 'two'])
  })

  it('has an end even when messages follow themselves, each other, or a missing message', async () => {
    const found = await read([
      user('a', 'a', 'first'),
      assistant('b', 'c', words('one')),
      user('c', 'b', 'second'),
      assistant('d', 'nowhere', words('two')),
    ])
    expect(turnTexts(found)).toEqual(['first', 'one', 'second', 'two'])
  })

  it('includes a line that was written twice only once', async () => {
    const lines = claudeLines([{ prompt: 'ask', answer: 'say' }])
    expect(turnTexts(await read([...lines, ...lines]))).toEqual(['ask', 'say'])
  })
})

describe('a prompt', () => {
  it('is the text that the user typed', async () => {
    const found = await read([
      user('a', null, '<command-name>/review</command-name>\n<command-args>the parser</command-args>'),
      user('b', 'a', '<local-command-stdout>done</local-command-stdout>'),
      user('c', 'b', 'a reminder', { isMeta: true }),
      user('d', 'c', [words('<system-reminder>\nx'), words('look at this'), { type: 'image', source: {} }]),
    ])
    expect(turnTexts(found)).toEqual(['/review the parser', 'look at this'])
  })

  it('has the title that the user gave it', async () => {
    const titles = [
      { type: 'ai-title', aiTitle: 'A parser', sessionId: SESSION },
      { type: 'custom-title', customTitle: 'The  parser\n', sessionId: SESSION },
    ]
    expect((await read([user('a', null, 'x'), ...titles]))!.title).toBe('The parser')
  })
})
