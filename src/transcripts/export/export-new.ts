/**
 * Writes each conversation of a home to the inbox once, and updates the file when the conversation continued. The user
 * and the periodic save call it repeatedly. It can be killed at any moment.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { delay } from '../../lib/delay.ts'
import { type FileLock, takeFileLock } from '../../lib/file-lock.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Conversation } from '../conversation.ts'
import { conversationsIn, type FindOptions, type FoundFile, findTranscripts } from '../find-transcripts.ts'
import { renderMarkdown } from '../markdown/render.ts'
import { slugOf, timeFolderName } from '../slug.ts'
import { idIn } from '../transcript-values.ts'
import { ExportRecords } from './export-records.ts'
import { Inbox } from './inbox.ts'

export interface ExportOptions extends FindOptions {
  /** The user's folder. The export creates `conversations/` in it. */
  readonly inbox: string
  /** Craik's own, private folder with the records of written files and the locks. */
  readonly records: string
  /** Identifies the source, so that no other source can change its files: a sandbox's id, or a folder. */
  readonly scope: string
  /** The sandbox, when the source is one. */
  readonly sandbox?: string
  /** How long the export waits for another one. */
  readonly timeoutMs?: number
}

export interface ExportedTranscripts {
  readonly path: string
  readonly conversation: Pick<Conversation, 'harness' | 'id'> & { readonly turns: number }
  /**
   * `edited`, `gone`: the user changed or removed the file, so Craik no longer writes it. `unknown`: the record of the
   * written file is damaged.
   */
  readonly outcome: 'written' | 'updated' | 'unchanged' | 'edited' | 'gone' | 'unknown'
}

const PATIENCE_MS = 60_000
const POLL_MS = 100
/** The limits for one run. The disk of a sandbox limits what its agent writes, but the inbox is on the user's disk. */
const MAX_NEW = 2000
const MAX_NEW_BYTES = 1024 * 1024 * 1024
/** The most conversations that started in the same second with the same words. */
const MAX_SAME = 1000

export async function exportNew(options: ExportOptions): Promise<ExportedTranscripts[]> {
  ensurePrivateFolder(options.records, 'folder of exported transcripts')
  // Each source has its own lock, so that a sandbox whose export never ends delays no other export.
  const lock = await waitForLock(options, `lock-${sha256(options.scope).slice(0, 40)}`)
  try {
    const inbox = await Inbox.open(options.inbox)
    try {
      return await new Export(options, inbox).run()
    } finally {
      await inbox.close()
    }
  } finally {
    lock.release()
  }
}

/**
 * Excludes a session that Craik itself prompts, by the agent's id of the session. It is not exported unless the user
 * continues it. Must be called before the first prompt.
 */
export function excludeSessions(
  { records, scope }: Pick<ExportOptions, 'records' | 'scope'>,
  harness: string,
  session: string,
): void {
  new ExportRecords(records).markCraikSession([scope, harness, idIn(session, session)])
}

async function waitForLock(
  { records, signal, timeoutMs: patienceMs = PATIENCE_MS }: ExportOptions,
  name: string,
): Promise<FileLock> {
  const until = performance.now() + patienceMs
  for (;;) {
    signal.throwIfAborted()
    const lock = takeFileLock(join(records, name), 'lock of exports')
    if (lock !== undefined) return lock
    if (performance.now() >= until)
      throw new CraikError('store_busy', 'another export of transcripts is still running', {
        hint: 'try again when it has finished:  craik transcripts export',
      })
    await delay(POLL_MS, signal)
  }
}

interface Work {
  readonly text: string
  readonly digest: string
}

class Export {
  readonly #options: ExportOptions
  readonly #inbox: Inbox
  readonly #records: ExportRecords
  #hasProblem = false
  #new = 0
  #newBytes = 0

  constructor(options: ExportOptions, inbox: Inbox) {
    this.#options = {
      ...options,
      onProblem: (path, problem) => {
        this.#hasProblem = true
        options.onProblem?.(path, problem)
      },
      onSkipped: (passed) => {
        this.#hasProblem = true
        options.onSkipped?.(passed)
      },
    }
    this.#inbox = inbox
    this.#records = new ExportRecords(options.records)
  }

  async run(): Promise<ExportedTranscripts[]> {
    const exported: ExportedTranscripts[] = []
    for await (const file of findTranscripts(this.#options)) {
      const key = this.#key(file)
      if (this.#records.stamp(key) === file.stamp) continue
      this.#hasProblem = false
      if (this.#new >= MAX_NEW || this.#newBytes >= MAX_NEW_BYTES) {
        this.#options.onProblem?.(file.path, 'and more wait for the next export: too many are new')
        return exported
      }
      for await (const conversation of conversationsIn(file, this.#options))
        if (!this.#isOwn(conversation)) exported.push(await this.#export(conversation, file))
      if (!this.#hasProblem) this.#records.setStamp(key, file.stamp)
    }
    return exported
  }

  #isOwn({ harness, id, turns }: Conversation): boolean {
    if (turns.filter(({ role }) => role === 'user').length > 1) return false
    return this.#records.isOwn([this.#options.scope, harness, id])
  }

  #key({ harness, path }: FoundFile, ...more: string[]): string[] {
    return [this.#options.scope, this.#inbox.path, harness, path, ...more]
  }

  async #export(conversation: Conversation, file: FoundFile): Promise<ExportedTranscripts> {
    const { sandbox } = this.#options
    const text = renderMarkdown(conversation, sandbox === undefined ? {} : { sandbox })
    const lock = await waitForLock(this.#options, 'lock')
    try {
      return await this.#write(conversation, file, { text, digest: sha256(text) })
    } finally {
      lock.release()
    }
  }

  async #write(conversation: Conversation, file: FoundFile, work: Work): Promise<ExportedTranscripts> {
    const key = this.#key(file, conversation.id)
    const record = this.#records.read(key)
    if (record === undefined) {
      this.#new++
      this.#newBytes += work.text.length
    }
    const { harness, id, turns } = conversation
    const finish = (path: string, outcome: ExportedTranscripts['outcome']): ExportedTranscripts => ({
      path,
      outcome,
      conversation: { harness, id, turns: turns.length },
    })
    if (record === 'damaged') return finish(this.#inbox.path, 'unknown')
    if (record === undefined) {
      const startedAtMs = conversation.startedAtMs ?? file.modifiedAtMs
      const { path, outcome } = await this.#create(key, work, {
        folder: timeFolderName(startedAtMs),
        slug: slugOf(conversation),
      })
      return finish(path, outcome)
    }
    const { folder, name, digest, next } = record
    const path = this.#inbox.pathOf(folder, name)
    const found = await this.#inbox.find(folder, name)
    if (found === 'missing') {
      // The export was killed before the file existed, so the user cannot have removed it.
      const isBegun = digest === null && next !== null
      if (!isBegun) return finish(path, 'gone')
      this.#records.write(key, { folder, name, digest: null, next: work.digest })
      if (!(await this.#inbox.create(folder, name, work.text))) return finish(path, 'edited')
      this.#records.write(key, { folder, name, digest: work.digest, next: null })
      return finish(path, 'written')
    }
    if (typeof found === 'string' || (found.digest !== digest && found.digest !== next))
      return finish(path, 'edited')
    if (found.digest !== work.digest) {
      this.#records.write(key, { folder, name, digest: found.digest, next: work.digest })
      await this.#inbox.replace(folder, name, work.text)
    }
    if (found.digest !== work.digest || digest !== work.digest || next !== null)
      this.#records.write(key, { folder, name, digest: work.digest, next: null })
    return finish(path, found.digest === work.digest ? 'unchanged' : 'updated')
  }

  /**
   * Creates the file under the first free name. A file that already contains this conversation is one whose record was
   * lost.
   */
  async #create(
    key: readonly string[],
    { text, digest }: Work,
    { folder, slug }: { readonly folder: string; readonly slug: string },
  ): Promise<Pick<ExportedTranscripts, 'path' | 'outcome'>> {
    for (let same = 1; same <= MAX_SAME; same++) {
      const name = `${slug}${same === 1 ? '' : `-${same}`}.md`
      const path = this.#inbox.pathOf(folder, name)
      const found = await this.#inbox.find(folder, name)
      // If the folder cannot be entered, creating the file reports the reason.
      if (found === 'missing' || found === 'elsewhere') {
        this.#records.write(key, { folder, name, digest: null, next: digest })
        if (!(await this.#inbox.create(folder, name, text))) continue
        this.#records.write(key, { folder, name, digest, next: null })
        return { path, outcome: 'written' }
      }
      if (found === 'odd' || identityOf(found.head) !== identityOf(text)) continue
      const isSame = found.digest === digest
      this.#records.write(key, { folder, name, digest: isSame ? digest : null, next: null })
      return { path, outcome: isSame ? 'unchanged' : 'edited' }
    }
    throw new CraikError('conflict', `no free name left in ${folder} of the inbox`, {
      hint: `move some conversations from ${folder} to another folder`,
    })
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Returns the lines of the front matter that identify the conversation. */
function identityOf(text: string): string {
  const [, front = ''] = /^---\n([\s\S]{0,4000}?)\n---\n/.exec(text) ?? []
  return front
    .split('\n')
    .filter((line) => /^(?:harness|session|sandbox): /.test(line))
    .join('\n')
}
