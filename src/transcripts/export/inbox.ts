/**
 * The user's folder for conversations. Each folder on the way is entered by name and never through a link. A file gets
 * its name when it is complete. An existing file is read before it is replaced.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readdir, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { createPrivateFile, writePrivateFile } from '../../lib/private-files.ts'
import type { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { enterOwn, openInbox, toExportError } from './own-folder.ts'

const FOLDER = 'conversations'
/** Matches the name of an incomplete file whose writer was killed. */
const LEFT_OVER = /^\.[a-z0-9-]{1,90}\.md\.[0-9a-f]{16}\.tmp$/
/** More than any conversation needs. */
const MAX_FILE_BYTES = 512 * 1024 * 1024
const HEAD_BYTES = 4096

export interface InboxFile {
  readonly digest: string
  /** The beginning of the file, which identifies its conversation. */
  readonly head: string
}

export class Inbox {
  readonly path: string
  readonly #conversations: OpenFolder

  private constructor(path: string, conversations: OpenFolder) {
    this.path = path
    this.#conversations = conversations
  }

  static async open(typed: string): Promise<Inbox> {
    const path = resolve(typed)
    const inbox = await openInbox(typed)
    try {
      return new Inbox(path, await enterOwn(inbox, FOLDER, `${path}/${FOLDER}`))
    } finally {
      await inbox.close()
    }
  }

  pathOf(folder: string, name: string): string {
    return `${this.path}/${FOLDER}/${folder}/${name}`
  }

  /**
   * Returns what has this name: nothing, a regular file, or something else that Craik does not touch (`odd`).
   * `elsewhere` means that its folder cannot be entered.
   */
  async find(folder: string, name: string): Promise<InboxFile | 'missing' | 'odd' | 'elsewhere'> {
    const found = await lstat(this.#conversations.at(folder)).catch(() => undefined)
    if (found === undefined) return 'missing'
    const held = await this.#conversations.enter(folder).catch(() => undefined)
    if (held === undefined) return 'elsewhere'
    try {
      return await digestOf(held.at(name))
    } finally {
      await held.close()
    }
  }

  /** Returns false when the name is already taken. */
  create(folder: string, name: string, text: string): Promise<boolean> {
    return this.#within(folder, (held) => createPrivateFile(held.at(name), text, 'transcript'))
  }

  /** Replaces the file that was found under this name. */
  replace(folder: string, name: string, text: string): Promise<void> {
    return this.#within(folder, (held) => writePrivateFile(held.at(name), text, 'transcript'))
  }

  async close(): Promise<void> {
    await this.#conversations.close()
  }

  async #within<T>(folder: string, work: (held: OpenFolder) => T): Promise<T> {
    const held = await enterOwn(this.#conversations, folder, `${this.path}/${FOLDER}/${folder}`)
    try {
      for (const name of await readdir(held.path))
        if (LEFT_OVER.test(name)) await rm(held.at(name), { force: true })
      return work(held)
    } catch (error) {
      throw toExportError(error, this.path)
    } finally {
      await held.close()
    }
  }
}

async function digestOf(path: string): Promise<InboxFile | 'missing' | 'odd'> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path, flags)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'odd'
  }
  try {
    const { size } = await file.stat()
    if (!(await file.stat()).isFile() || size > MAX_FILE_BYTES) return 'odd'
    const hash = createHash('sha256')
    let head = Buffer.alloc(0)
    for await (const chunk of file.createReadStream({ autoClose: false, end: MAX_FILE_BYTES })) {
      hash.update(chunk as Buffer)
      if (head.length < HEAD_BYTES) head = Buffer.concat([head, chunk as Buffer]).subarray(0, HEAD_BYTES)
    }
    return { digest: hash.digest('hex'), head: head.toString('utf8') }
  } finally {
    await file.close()
  }
}
