/** Invented transcripts in the formats of the five programs. Each contains the same conversation. */
import { DatabaseSync } from 'node:sqlite'
import type { TranscriptHarness } from './conversation.ts'
import type { TranscriptSource } from './source.ts'

export interface TranscriptExchange {
  readonly prompt: string
  readonly thought?: string
  readonly before?: string
  readonly tool?: { readonly runs: string; readonly output: string; readonly failed?: boolean }
  readonly answer: string
}

export const TWO: readonly TranscriptExchange[] = [
  {
    prompt: 'why does the parser test fail?',
    thought: 'look at the test first',
    before: 'I will run it.',
    tool: { runs: 'npm test -- parser', output: 'one test failed' },
    answer: 'The lexer drops a trailing comment.',
  },
  { prompt: 'then mend it', answer: 'It is mended.' },
]

export const SESSION = '7c9e6679-7425-40de-944b-e07fc1f90ae7'
export const FOLDER = '/workspace/home/project'
const START_MS = Date.UTC(2026, 10, 15, 9, 12, 44)
const at = (i: number) => START_MS + i * 1000
const instant = (i: number) => new Date(at(i)).toISOString()
const usage = { input_tokens: 11, output_tokens: 7 }

/** Lines in the order in which the program appends them. */
export const LINES: Readonly<
  Record<Exclude<TranscriptHarness, 'opencode'>, (exchanges: readonly TranscriptExchange[]) => object[]>
> = {
  'claude-code': claudeLines,
  codex: codexLines,
  gemini: geminiLines,
  kimi: kimiLines,
}

export const PATHS: Readonly<Record<TranscriptHarness, string>> = {
  'claude-code': `.claude/projects/-home-agent-workspace/${SESSION}.jsonl`,
  codex: `.codex/sessions/2026/11/15/rollout-2026-11-15T09-12-44-${SESSION}.jsonl`,
  gemini: '.gemini/tmp/workspace/chats/session-2026-11-15T09-12-7c9e6679.jsonl',
  opencode: '.local/share/opencode/opencode.db',
  kimi: `.kimi-code/sessions/wd_workspace_1f2e/session_${SESSION}/agents/main/wire.jsonl`,
}

export function jsonl(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** A home folder in memory. */
export function memoryHome(
  files: Readonly<Record<string, string | Buffer>>,
  chunkBytes = 64 * 1024,
): TranscriptSource {
  return {
    async *list(folder, depth) {
      for (const [path, content] of Object.entries(files)) {
        if (!path.startsWith(`${folder}/`)) continue
        if (path.slice(folder.length + 1).split('/').length > depth + 1) continue
        yield { path, bytes: Buffer.byteLength(content), modifiedAtMs: START_MS }
      }
    },
    async *read(path, maxBytes) {
      const content = Buffer.from(files[path] ?? '').subarray(0, maxBytes)
      for (let from = 0; from < content.length; from += chunkBytes)
        yield content.subarray(from, from + chunkBytes)
    },
  }
}

export function claudeLines(exchanges: readonly TranscriptExchange[]): object[] {
  const lines: object[] = [
    {
      type: 'queue-operation',
      operation: 'enqueue',
      timestamp: instant(0),
      sessionId: SESSION,
      content: 'x',
    },
  ]
  let parent: string | null = null
  let count = 0
  const node = (type: string, more: object) => {
    const uuid: string = `node-${count++}`
    const common = { isSidechain: false, timestamp: instant(count), cwd: FOLDER, sessionId: SESSION }
    lines.push({ parentUuid: parent, type, uuid, ...common, ...more })
    parent = uuid
  }
  const say = (id: string, ...content: object[]) => {
    for (const block of content)
      node('assistant', { message: { id, role: 'assistant', model: 'model-1', content: [block], usage } })
  }
  for (const [i, { prompt, thought, before, tool, answer }] of exchanges.entries()) {
    node('user', { message: { role: 'user', content: prompt } })
    node('attachment', { attachment: { type: 'environment' } })
    lines.push({ type: 'api-request', sessionId: SESSION, params: { model: 'model-1' } })
    if (thought) say(`first-${i}`, { type: 'thinking', thinking: thought, signature: 'x' })
    if (before) say(`first-${i}`, { type: 'text', text: before })
    if (tool) {
      const id = `tool-${i}`
      say(`first-${i}`, { type: 'tool_use', id, name: 'Bash', input: { command: tool.runs } })
      const result = {
        type: 'tool_result',
        tool_use_id: id,
        content: tool.output,
        is_error: tool.failed ?? false,
      }
      node('user', { message: { role: 'user', content: [result] }, toolUseResult: { stdout: tool.output } })
    }
    say(`last-${i}`, { type: 'text', text: answer })
    lines.push({ type: 'last-prompt', lastPrompt: prompt, leafUuid: parent, sessionId: SESSION })
  }
  return lines
}

function codexLines(exchanges: readonly TranscriptExchange[]): object[] {
  const lines: object[] = []
  const line = (type: string, payload: object) =>
    lines.push({ timestamp: instant(lines.length), ordinal: lines.length, type, payload })
  const message = (role: string, text: string, kind: string) =>
    line('response_item', {
      type: 'message',
      role,
      content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text }],
      internal_chat_message_metadata_passthrough: { content_item_kinds: [kind] },
    })
  line('session_meta', { id: SESSION, timestamp: instant(0), cwd: FOLDER, source: 'exec' })
  message('developer', 'be helpful', 'permissions.instructions')
  message('user', '<environment_context>\n</environment_context>', 'environments.environment_context')
  for (const [i, { prompt, thought, before, tool, answer }] of exchanges.entries()) {
    line('turn_context', { cwd: FOLDER, model: 'model-1' })
    message('user', prompt, 'user.text')
    line('event_msg', { type: 'item_completed', item: { type: 'UserMessage' } })
    if (thought)
      line('response_item', {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: thought }],
        content: null,
      })
    if (before) message('assistant', before, 'unknown')
    if (tool) {
      const call_id = `call-${i}`
      const argument = JSON.stringify({ cmd: tool.runs })
      line('response_item', { type: 'function_call', name: 'exec_command', arguments: argument, call_id })
      const exit = `Process exited with code ${tool.failed ? 1 : 0}`
      const output = `Chunk ID: 1\nWall time: 0.1 seconds\n${exit}\nOutput:\n${tool.output}`
      line('response_item', { type: 'function_call_output', call_id, output })
    }
    message('assistant', answer, 'unknown')
    line('event_msg', {
      type: 'token_count',
      info: { total_token_usage: { input_tokens: 11 * (i + 1), output_tokens: 7 * (i + 1) } },
    })
  }
  return lines
}

function geminiLines(exchanges: readonly TranscriptExchange[]): object[] {
  const context = {
    id: 'context',
    timestamp: instant(0),
    type: 'user',
    content: [{ text: '<session_context>\n' }],
  }
  const lines: object[] = [
    { sessionId: SESSION, projectHash: 'x', startTime: instant(0), lastUpdated: instant(0), kind: 'main' },
    { $set: { messages: [context], lastUpdated: instant(0) } },
  ]
  for (const [i, { prompt, thought, before, tool, answer }] of exchanges.entries()) {
    const timestamp = instant(i + 1)
    const tokens = { input: 11, output: 7, thoughts: 0 }
    const reply = { timestamp, type: 'gemini', tokens, model: 'model-1' }
    const thoughts = thought ? [{ subject: thought, description: '', timestamp }] : []
    lines.push({ id: `prompt-${i}`, timestamp, type: 'user', content: [{ text: prompt }] })
    if (thought || before || tool) {
      const first = { id: `first-${i}`, ...reply, content: before ?? '', thoughts }
      lines.push(first, { $set: { lastUpdated: timestamp } })
      if (tool) {
        const response = { functionResponse: { id: 'x', name: 'shell', response: { output: tool.output } } }
        const call = {
          id: `call-${i}`,
          name: 'run_shell_command',
          args: { command: tool.runs },
          result: [response],
          status: tool.failed ? 'error' : 'success',
          resultDisplay: tool.output,
        }
        lines.push({ ...first, toolCalls: [call] })
        lines.push({ id: `result-${i}`, timestamp, type: 'user', content: [response] })
      }
    }
    lines.push(
      { id: `last-${i}`, ...reply, content: answer, thoughts: [] },
      { $set: { lastUpdated: timestamp } },
    )
  }
  return lines
}

function kimiLines(exchanges: readonly TranscriptExchange[]): object[] {
  const lines: object[] = [{ type: 'metadata', protocol_version: '1.5', created_at: at(0) }]
  const line = (type: string, more: object) =>
    lines.push({ type, agentId: 'main', ...more, time: at(lines.length) })
  const prompt = (text: string, kind: string) =>
    line('context.append_message', {
      message: { role: 'user', content: [{ type: 'text', text }], toolCalls: [], origin: { kind } },
    })
  const event = (more: object) => line('context.append_loop_event', { event: more })
  line('profile.bind', { environmentDisclosure: { cwd: FOLDER }, systemPrompt: 'be helpful' })
  for (const [i, { prompt: requested, thought, before, tool, answer }] of exchanges.entries()) {
    line('turn.prompt', { input: [{ type: 'text', text: requested }], turnId: i })
    prompt(requested, 'user')
    prompt('<system-reminder>\nToday is a day.', 'injection')
    line('llm.request', { model: 'model-1' })
    event({ type: 'step.begin', step: 1 })
    if (thought) event({ type: 'content.part', part: { type: 'think', think: thought } })
    if (before) event({ type: 'content.part', part: { type: 'text', text: before } })
    if (tool) {
      event({ type: 'tool.call', toolCallId: `call-${i}`, name: 'Bash', args: { command: tool.runs } })
      const result = { output: tool.output, ...(tool.failed && { isError: true }) }
      event({ type: 'tool.result', toolCallId: `call-${i}`, result })
    }
    event({ type: 'content.part', part: { type: 'text', text: answer } })
    line('usage.record', { usage: { inputOther: 11, output: 7, inputCacheRead: 0 }, usageScope: 'turn' })
    line('turn.ended', { turnId: i, reason: 'completed' })
  }
  return lines
}

/** The tables of OpenCode 1.18, without columns that neither Craik nor the tests read. */
const TABLES = `
  CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
    directory text NOT NULL, title text NOT NULL, version text NOT NULL, revert text, model text,
    time_created integer NOT NULL, time_updated integer NOT NULL);
  CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL,
    CONSTRAINT fk FOREIGN KEY (session_id) REFERENCES session(id) ON DELETE CASCADE);
  CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL,
    CONSTRAINT fk FOREIGN KEY (message_id) REFERENCES message(id) ON DELETE CASCADE);
  CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
  CREATE INDEX part_message_id_id_idx ON part (message_id, id);
`

/** Opens a database with a log next to it, as a killed program leaves it. The caller closes it. */
export function openOpencodeDatabase(path: string): DatabaseSync {
  const database = new DatabaseSync(path)
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; ${TABLES}`)
  return database
}

export function addOpencodeSession(
  database: DatabaseSync,
  exchanges: readonly TranscriptExchange[],
  { id = 'ses_7c9e6679', parent = null as string | null, revert = null as string | null } = {},
): void {
  let count = 0
  const next = () => `${id}-${String(count++).padStart(6, '0')}`
  const row = (table: string, values: readonly (string | number | null)[]) =>
    database.prepare(`INSERT INTO ${table} VALUES (${values.map(() => '?').join(', ')})`).run(...values)
  const common = [id, 'global', parent, 'quiet-river', FOLDER, 'the parser', '1.18.33', revert, null]
  row('session', [...common, at(0), at(1)])
  const message = (data: object) => {
    const messageId = next()
    row('message', [messageId, id, at(count), at(count), JSON.stringify(data)])
    return (part: object) => row('part', [next(), messageId, id, at(count), at(count), JSON.stringify(part)])
  }
  const answer = {
    role: 'assistant',
    modelID: 'model-1',
    tokens: { input: 11, output: 7, cache: { read: 0 } },
  }
  for (const [i, exchange] of exchanges.entries()) {
    message({ role: 'user' })({ type: 'text', text: exchange.prompt })
    const { thought, before, tool } = exchange
    if (thought || before || tool) {
      const part = message(answer)
      part({ type: 'step-start' })
      if (thought) part({ type: 'reasoning', text: thought })
      if (before) part({ type: 'text', text: before })
      if (tool) {
        const result = tool.failed
          ? { status: 'error', error: tool.output }
          : { status: 'completed', output: tool.output }
        const state = { ...result, input: { command: tool.runs } }
        part({ type: 'tool', tool: 'bash', callID: `call-${i}`, state })
      }
    }
    message(answer)({ type: 'text', text: exchange.answer })
  }
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}
