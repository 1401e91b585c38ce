/** Tests the special cases of Codex, Gemini and Kimi: undone turns, repeated messages and subagents. */
import { describe, expect, it } from 'vitest'
import { type Conversation, turnText } from '../conversation.ts'
import { findConversations } from '../find-transcripts.ts'
import { all, jsonl, LINES, memoryHome, PATHS, TWO } from '../transcripts.fixture.ts'

async function read(
  harness: keyof typeof LINES,
  lines: readonly object[],
  path = PATHS[harness],
): Promise<Conversation | undefined> {
  const signal = new AbortController().signal
  const options = { source: memoryHome({ [path]: jsonl(lines) }), signal, redact: (text: string) => text }
  return (await all(findConversations(options)))[0]
}
const turnTexts = (conversation: Conversation | undefined) => conversation?.turns.map(turnText)
const FIRST = ['why does the parser test fail?', 'I will run it.\n\nThe lexer drops a trailing comment.']

describe('codex', () => {
  const lines = LINES.codex(TWO)
  const item = (payload: object) => ({
    timestamp: '2026-11-15T09:20:00.000Z',
    type: 'response_item',
    payload,
  })
  const message = (role: string, ...texts: string[]) =>
    item({ type: 'message', role, content: texts.map((text) => ({ type: 'input_text', text })) })

  it('removes turns that were rolled back', async () => {
    const back = { type: 'event_msg', payload: { type: 'thread_rolled_back', num_turns: 1 } }
    expect(turnTexts(await read('codex', [...lines, back]))).toEqual(FIRST)
    const far = { type: 'event_msg', payload: { type: 'thread_rolled_back', num_turns: 9 } }
    expect(await read('codex', [...lines, far])).toBeUndefined()
  })

  it('of an older version excludes text that it sends to the model in the user’s name', async () => {
    const [meta] = lines
    const found = await read('codex', [
      meta!,
      message('user', '# AGENTS.md instructions for /x\n…', '<environment_context>\n…'),
      message('user', 'what is <environment_context>?'),
      message('assistant', 'a block'),
    ])
    expect(turnTexts(found)).toEqual(['what is <environment_context>?', 'a block'])
  })

  it('includes tools of every kind', async () => {
    const found = await read('codex', [
      ...lines,
      item({ type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: '*** Begin' }),
      item({ type: 'custom_tool_call_output', call_id: 'c', output: 'Exit code: 1\nno' }),
      item({ type: 'local_shell_call', call_id: 'd', action: { command: ['ls'] } }),
      item({ type: 'function_call_output', call_id: 'd', output: [{ type: 'input_text', text: 'a.ts' }] }),
      item({ type: 'web_search_call', action: { query: 'x' } }),
      item({ type: 'function_call', call_id: 'e', name: 'exec_command', arguments: '{broken' }),
      item({ type: 'brand_new_item', whatever: 1 }),
    ])
    expect(found!.turns.at(-1)!.parts.slice(1)).toMatchObject([
      { name: 'apply_patch', input: '*** Begin', ok: false },
      { name: 'local_shell', output: 'a.ts' },
      { name: 'web_search' },
      { name: 'exec_command', input: '{broken' },
    ])
    expect(found!.damage.damaged).toBe(0)
  })

  it('excludes the session of a subagent', async () => {
    const [meta, ...rest] = lines as [{ payload: object }, ...object[]]
    const sub = { ...meta, payload: { ...meta.payload, source: { subagent: 'review' } } }
    expect(await read('codex', [sub, ...rest])).toBeUndefined()
  })
})

describe('gemini', () => {
  const lines = LINES.gemini(TWO)
  const prompt = (id: string, text: string) => ({ id, type: 'user', content: [{ text }] })

  it('reads a resumed session as one conversation, with content that its own copies omit', async () => {
    const copies = [
      prompt('prompt-0', TWO[0]!.prompt),
      {
        id: 'first-0',
        type: 'gemini',
        content: [{ text: 'I will run it.' }, { functionCall: { name: 'x', args: {} } }],
      },
      { id: 'first-0_response', type: 'user', content: [{ functionResponse: { name: 'x' } }] },
      { id: 'last-0', type: 'gemini', content: [{ text: TWO[0]!.answer }] },
    ]
    const found = await read('gemini', [
      ...lines,
      { sessionId: 'x', startTime: '2026-11-15T10:00:00.000Z', kind: 'main' },
      { $set: { messages: [] } },
      { $set: { messages: copies } },
      prompt('more', 'and now?'),
    ])
    expect(turnTexts(found)).toEqual([...FIRST, 'and now?'])
    expect(found!.turns[1]!.parts[2]).toMatchObject({ output: 'one test failed' })
  })

  it('rewinds to before a message, and to nothing when the message is unknown', async () => {
    expect(turnTexts(await read('gemini', [...lines, { $rewindTo: 'prompt-1' }]))).toEqual(FIRST)
    expect(await read('gemini', [...lines, { $rewindTo: 'nowhere' }])).toBeUndefined()
  })

  it('excludes the session of a subagent', async () => {
    const [head, ...rest] = lines
    expect(await read('gemini', [{ ...head, kind: 'subagent' }, ...rest])).toBeUndefined()
  })
})

describe('kimi', () => {
  const lines = LINES.kimi(TWO)

  it('removes prompts that were undone', async () => {
    expect(turnTexts(await read('kimi', [...lines, { type: 'context.undo', count: 1 }]))).toEqual(FIRST)
  })

  it('includes the output of a tool that is in pieces', async () => {
    const event = (more: object) => ({ type: 'context.append_loop_event', event: more })
    const found = await read('kimi', [
      ...lines,
      event({ type: 'tool.call', toolCallId: 'x', name: 'Read', args: {} }),
      event({
        type: 'tool.result',
        toolCallId: 'x',
        result: { output: [{ type: 'text', text: 'a' }, { type: 'image' }] },
      }),
    ])
    expect(found!.turns.at(-1)!.parts.at(-1)).toMatchObject({ name: 'Read', output: 'a\n\n' })
  })

  it('excludes agents other than the main one', async () => {
    expect(await read('kimi', lines, PATHS.kimi.replace('main', 'coder-1'))).toBeUndefined()
  })
})
