/**
 * Records outside the inbox what was written to it. So Craik recognizes a file that the user moved, edited or deleted,
 * even when the whole inbox is gone. Each conversation has a small record file, which is replaced as a whole.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../../lib/private-files.ts'

const MAX_BYTES = 16 * 1024
const digest = z.string().regex(/^[0-9a-f]{64}$/)

const exportRecord = z.object({
  version: z.literal(1),
  folder: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/),
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,80}\.md$/),
  /** The digest of the last written text. Null when nothing was written, or when the file is the user's. */
  digest: digest.nullable(),
  /** The digest of the text that is about to be written. If the writer was killed, the file can have either digest. */
  next: digest.nullable(),
})
export type ExportRecord = z.infer<typeof exportRecord>

const ownRecord = z.object({ version: z.literal(1) })
const stampRecord = z.object({ version: z.literal(1), stamp: z.string().max(200) })

export class ExportRecords {
  readonly #folder: string

  /** Creates the folder when it does not exist. */
  constructor(folder: string) {
    ensurePrivateFolder(folder, 'folder of exported transcripts')
    this.#folder = folder
  }

  /** Returns undefined when it was never exported, and `damaged` when it is unknown what was written. */
  read(key: readonly string[]): ExportRecord | 'damaged' | undefined {
    return this.#read(exportRecord, 'conversation', key)
  }

  write(key: readonly string[], record: Omit<ExportRecord, 'version'>): void {
    this.#write('conversation', key, { version: 1, ...record } satisfies ExportRecord)
  }

  /** Marks a session that Craik itself prompted, because the user does not need it. */
  markCraikSession(key: readonly string[]): void {
    this.#write('own', key, { version: 1 })
  }

  isOwn(key: readonly string[]): boolean {
    const found = this.#read(ownRecord, 'own', key)
    return found !== undefined && found !== 'damaged'
  }

  /** Returns the stamp that a file had when everything in it was exported. */
  stamp(key: readonly string[]): string | undefined {
    const found = this.#read(stampRecord, 'file', key)
    return found === 'damaged' ? undefined : found?.stamp
  }

  setStamp(key: readonly string[], stamp: string): void {
    this.#write('file', key, { version: 1, stamp })
  }

  #read<T extends z.ZodType>(
    schema: T,
    kind: string,
    key: readonly string[],
  ): z.output<T> | 'damaged' | undefined {
    const path = this.#path(kind, key)
    if (!existsSync(path)) return undefined
    try {
      return schema.parse(JSON.parse(readPrivateFile(path, MAX_BYTES, 'record of an export').toString()))
    } catch (error) {
      // A file that another user owns or can write cannot serve as a record.
      if (error instanceof CraikError && error.code === 'key_exposed') throw error
      return 'damaged'
    }
  }

  #write(kind: string, key: readonly string[], record: object): void {
    writePrivateFile(this.#path(kind, key), `${JSON.stringify(record)}\n`, 'record of an export')
  }

  #path(kind: string, key: readonly string[]): string {
    const name = createHash('sha256').update(JSON.stringify(key)).digest('hex')
    return join(this.#folder, `${kind}-${name.slice(0, 40)}.json`)
  }
}
