/**
 * Records the sandbox of each login while it is up, so that a later command can save it to the right inbox. Each record
 * is a small file, replaced as a whole. The state of the sandbox at entry is in a file next to it.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { tryParseJson } from '../lib/external-response.ts'
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import { sandboxId } from '../sandboxes/lifecycle/sandbox-record.ts'
import { type SavedState, sandboxState } from './keep/sandbox-state.ts'

const MAX_BYTES = 16 * 1024
const MAX_STATE_BYTES = 16 * 1024 * 1024
const NAME = /^([a-z0-9][a-z0-9-]{0,38})\.json$/

const loginRecord = z.strictObject({
  version: z.literal(1),
  login: z.string().regex(/^[a-z0-9][a-z0-9-]{0,38}$/),
  profile: z.string().max(200).nullable(),
  sandboxId,
  /** An absolute path. */
  inbox: z.string().startsWith('/').max(4096),
  /** The folder that the sandbox works on, in place or as a copy. */
  workspace: z.string().startsWith('/').max(4096).nullable().default(null),
  /** The git author in the sandbox. */
  author: z
    .strictObject({ name: z.string().max(200), email: z.string().max(200) })
    .nullable()
    .default(null),
  /** The time of entry, as the name of a folder: `2026-11-15T09-12-44Z`. */
  entryTimestamp: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/),
  /** The file in the same folder with the state at entry. Null when Craik could not read the state. */
  entry: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,38}\.entry-[0-9TZ-]{20}\.json$/)
    .nullable(),
})
export type LoginRecord = z.infer<typeof loginRecord>

export class LoginRecords {
  readonly #folder: string

  /** Creates no files. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Writes the record of this login and removes its earlier state. */
  enter(record: Omit<LoginRecord, 'version' | 'entry'>, state: SavedState | undefined): LoginRecord {
    const entryTimestamp = this.#freeTimestamp(record)
    const entry = state === undefined ? null : `${record.login}.entry-${entryTimestamp}.json`
    const whole = loginRecord.parse({ ...record, version: 1, entryTimestamp, entry } satisfies LoginRecord)
    ensurePrivateFolder(this.#folder, 'folder of login sandboxes')
    if (entry !== null) writePrivateFile(join(this.#folder, entry), JSON.stringify(state), 'state at entry')
    writePrivateFile(this.#path(record.login), `${JSON.stringify(whole)}\n`, 'record of a login sandbox')
    this.#removeEntries(record.login, entry)
    return whole
  }

  /** Returns undefined when this login has no record. */
  read(login: string): LoginRecord | undefined {
    const path = this.#path(login)
    if (!existsSync(path)) return undefined
    const text = readPrivateFile(path, MAX_BYTES, 'record of a login sandbox').toString()
    const found = loginRecord.safeParse(tryParseJson(text))
    if (found.success && found.data.login === login) return found.data
    throw new CraikError('invalid_config', `cannot read the record of the login sandbox of ${login}`, {
      hint: `write the record again:  craik up --login ${login}`,
    })
  }

  /** Like `read`, but returns undefined for an unreadable record, because the next entry replaces it. */
  readOrUndefined(login: string): LoginRecord | undefined {
    try {
      return this.read(login)
    } catch {
      return undefined
    }
  }

  /** Returns the readable records. Calls `onUnreadable` for the others. */
  list(onUnreadable?: (login: string, error: unknown) => void): LoginRecord[] {
    if (!existsSync(this.#folder)) return []
    const logins = readdirSync(this.#folder).flatMap((name) => NAME.exec(name)?.[1] ?? [])
    return logins.sort().flatMap((login) => {
      try {
        return this.read(login) ?? []
      } catch (error) {
        onUnreadable?.(login, error)
        return []
      }
    })
  }

  /** Returns the state of the sandbox at entry. Undefined when it was not recorded or cannot be read. */
  entryOf({ entry }: LoginRecord): SavedState | undefined {
    if (entry === null) return undefined
    try {
      return sandboxState.parse(
        tryParseJson(
          readPrivateFile(join(this.#folder, entry), MAX_STATE_BYTES, 'state at entry').toString(),
        ),
      )
    } catch {
      return undefined
    }
  }

  remove(login: string): void {
    rmSync(this.#path(login), { force: true })
    this.#removeEntries(login, null)
  }

  /** Returns a later second when another login already uses a folder of that name in the same inbox. */
  #freeTimestamp({ login, inbox, entryTimestamp }: Omit<LoginRecord, 'version' | 'entry'>): string {
    const others = this.list().filter((other) => other.login !== login && other.inbox === inbox)
    let free = entryTimestamp
    while (others.some((other) => other.entryTimestamp === free)) free = secondAfter(free)
    return free
  }

  #removeEntries(login: string, but: string | null): void {
    if (!existsSync(this.#folder)) return
    for (const name of readdirSync(this.#folder))
      if (name.startsWith(`${login}.entry-`) && name !== but)
        rmSync(join(this.#folder, name), { force: true })
  }

  #path(login: string): string {
    return join(this.#folder, `${login}.json`)
  }
}

function secondAfter(timestamp: string): string {
  const atMs = Date.parse(timestamp.replace(/T(\d\d)-(\d\d)-/, 'T$1:$2:'))
  return `${new Date(atMs + 1000).toISOString().slice(0, 19).replaceAll(':', '-')}Z`
}
