/** Reads OpenCode's transcripts from a copy of its SQLite database, which contains all sessions. */
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { DatabaseLine } from '../opencode/database-lines.ts'
import { readDatabase } from '../opencode/subprocess.ts'
import type { TranscriptFile, TranscriptSource } from '../source.ts'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { anything, parseWith } from '../transcript-lines.ts'
import { nameIn, parseTokens, timeOf } from '../transcript-values.ts'
import type { TranscriptReader } from './reader.ts'

const FOLDER = '.local/share/opencode'
const NAME = 'opencode.db'

export const opencodeReader: TranscriptReader = {
  harness: 'opencode',
  folder: FOLDER,
  depth: 0,
  matches: (path) => path === NAME,
  companions: (path) => [`${path}-wal`],
  async *read(source, file, { signal }) {
    const folder = await mkdtemp(join(tmpdir(), 'craik-transcripts-'))
    try {
      const copy = join(folder, NAME)
      const cut = await copyDatabase(source, file, copy)
      yield* sessionsIn(readDatabase(copy, signal), cut)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

/** The number of attempts to copy a database that OpenCode rewrites during the copy. */
const TRIES = 3

/**
 * Copies the database and its log. If the database file itself did not change during the copy, the two match: a later
 * entry of the log is complete or missing. Returns true when the database is longer than the limit.
 */
async function copyDatabase(source: TranscriptSource, file: TranscriptFile, to: string): Promise<boolean> {
  let before = file
  for (let attempt = 1; ; attempt++) {
    await copyFile(source, file.path, to)
    await copyFile(source, `${file.path}-wal`, `${to}-wal`)
    const after = await find(source, file.path)
    const isSame = after?.bytes === before.bytes && after.modifiedAtMs === before.modifiedAtMs
    if (isSame || after === undefined || attempt === TRIES) return before.bytes > TRANSCRIPT_LIMITS.fileBytes
    before = after
  }
}

async function find(source: TranscriptSource, path: string): Promise<TranscriptFile | undefined> {
  for await (const one of source.list(FOLDER, 0))
    if (one.path === path && one.unreadableReason === undefined) return one
  return undefined
}

async function copyFile(source: TranscriptSource, path: string, to: string): Promise<void> {
  const file = await open(to, 'w', 0o600)
  try {
    for await (const chunk of source.read(path, TRANSCRIPT_LIMITS.fileBytes)) await file.writeFile(chunk)
  } finally {
    await file.close()
  }
}

const text = z.string()
const messageData = z.object({
  role: z.enum(['user', 'assistant']),
  modelID: anything,
  tokens: z
    .looseObject({ input: anything, output: anything, cache: z.looseObject({}).optional().catch(undefined) })
    .optional()
    .catch(undefined),
})
const partData = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text, synthetic: anything, ignored: anything }),
  z.object({ type: z.literal('reasoning'), text }),
  z.object({
    type: z.literal('tool'),
    tool: text,
    callID: text,
    state: z.object({ status: anything, input: anything, output: anything, error: anything }),
  }),
])
const KNOWN: ReadonlySet<unknown> = new Set(partData.options.flatMap(({ shape }) => [...shape.type.values]))

async function* sessionsIn(
  lines: AsyncIterable<DatabaseLine | undefined>,
  isCut: boolean,
): AsyncGenerator<TranscriptEntry> {
  let session: Session | undefined
  const damage = (what: Extract<TranscriptEntry, { type: 'damage' }>['damage']): TranscriptEntry => ({
    type: 'damage',
    damage: what,
  })
  for await (const line of lines) {
    if (line === undefined) {
      session?.skip()
      yield damage({ damaged: 1 })
    } else if ('session' in line) {
      if (session !== undefined) yield* session.end()
      session = new Session(line.session)
      yield* session.begin()
      if (isCut) yield damage({ cut: true })
    } else if ('refused' in line) {
      yield damage({ cut: true })
      yield { type: 'problem', problem: `is not a readable database: ${line.refused.slice(0, 200)}` }
    } else if ('ended' in line) {
      if (line.ended.cut) yield damage({ cut: true })
    } else if (session !== undefined) yield* session.take(line)
  }
  if (session !== undefined) yield* session.end()
}

type SessionRow = Extract<DatabaseLine, { session: unknown }>['session']
type InSession = Extract<DatabaseLine, { message: unknown } | { part: unknown }>

class Session {
  readonly #row: SessionRow
  /** The first of the messages that were reverted. */
  readonly #revertedFrom: string | undefined
  #isReverted = false
  readonly #usage = { inputTokens: 0, outputTokens: 0 }
  #message: { readonly role: 'user' | 'assistant'; readonly atMs: number | undefined } | undefined
  /** A prompt is one turn, however many parts it has. */
  #prompt: string[] = []

  constructor(row: SessionRow) {
    this.#row = row
    const revert = parseWith(z.object({ messageID: text }), parseJson(row.revert))
    this.#revertedFrom = revert?.messageID
  }

  *begin(): Generator<TranscriptEntry> {
    const { id, directory, title, time_created, parent_id } = this.#row
    yield { type: 'begin', id }
    yield {
      type: 'facts',
      cwd: nameIn(directory),
      title: nameIn(title),
      startedAtMs: timeOf(time_created),
    }
    if (parent_id !== null) yield { type: 'discard' }
  }

  *take(line: InSession): Generator<TranscriptEntry> {
    if ('part' in line) return yield* this.#part(line.part.data)
    yield* this.#flushPrompt()
    const { id, time_created, data } = line.message
    this.#isReverted ||= id === this.#revertedFrom
    this.#message = undefined
    if (this.#isReverted) return
    if (data === null) return yield { type: 'damage', damage: { oversized: 1 } }
    const found = parseWith(messageData, parseJson(data))
    if (found === undefined) return yield { type: 'damage', damage: { damaged: 1 } }
    this.#message = { role: found.role, atMs: timeOf(time_created) }
    const model = nameIn(found.modelID)
    if (model !== undefined) yield { type: 'facts', model }
    const { input, output, cache } = found.tokens ?? {}
    this.#usage.inputTokens += parseTokens(input) + parseTokens(cache?.read) + parseTokens(cache?.write)
    this.#usage.outputTokens += parseTokens(output)
  }

  /** A row that cannot be read may have been a message, so the next parts do not belong to the message before it. */
  skip(): void {
    this.#message = undefined
  }

  *end(): Generator<TranscriptEntry> {
    yield* this.#flushPrompt()
    if (this.#usage.inputTokens + this.#usage.outputTokens > 0)
      yield { type: 'facts', usage: { ...this.#usage } }
  }

  *#part(data: string | number | null): Generator<TranscriptEntry> {
    if (this.#message === undefined) return
    if (data === null) return yield { type: 'damage', damage: { oversized: 1 } }
    const value = parseJson(data)
    if (typeof value !== 'object' || value === null) return yield { type: 'damage', damage: { damaged: 1 } }
    if (!KNOWN.has((value as { readonly type?: unknown }).type)) return
    const found = parseWith(partData, value)
    if (found === undefined) return yield { type: 'damage', damage: { damaged: 1 } }
    const { role, atMs } = this.#message
    if (found.type === 'tool') return yield* toolEntries(found, atMs)
    if (found.type === 'reasoning') return yield { type: 'thinking', atMs, text: found.text }
    // Text that the program adds in the user's name.
    if (found.synthetic === true || found.ignored === true) return
    if (role === 'user') this.#prompt.push(found.text)
    else yield { type: 'text', atMs, text: found.text }
  }

  *#flushPrompt(): Generator<TranscriptEntry> {
    if (this.#prompt.length > 0)
      yield { type: 'user', atMs: this.#message?.atMs, text: this.#prompt.join('\n\n') }
    this.#prompt = []
  }
}

function* toolEntries(
  { tool, callID, state }: Extract<z.infer<typeof partData>, { type: 'tool' }>,
  atMs: number | undefined,
): Generator<TranscriptEntry> {
  yield { type: 'call', atMs, callId: callID, name: tool, input: state.input }
  const output = state.status === 'error' ? state.error : state.output
  if (typeof output === 'string')
    yield { type: 'result', callId: callID, output, ok: state.status === 'completed' }
}

function parseJson(data: unknown): unknown {
  if (typeof data !== 'string') return undefined
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}
