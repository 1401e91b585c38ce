/** The stored contents of a run, each under its own SHA-256. The size limit is that of an applied file. */
import { createHash } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { SHA256 } from './file-manifest.ts'

export class ContentStore {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  create(): void {
    ensurePrivateFolder(this.#folder, 'contents folder')
  }

  /**
   * Writes directly and without waiting for the disk. Readers check the digest, and nothing names a content before all
   * are written.
   */
  put(content: Buffer): string {
    const digest = sha256(content)
    try {
      writeFileSync(join(this.#folder, digest), content, { mode: 0o600 })
      return digest
    } catch (error) {
      throw writeError(error)
    }
  }

  /** Returns `undefined` when the content is missing. Throws when it does not match its digest. */
  get(digest: string): Buffer | undefined {
    if (!SHA256.test(digest)) return undefined
    const content = readWhole(join(this.#folder, digest))
    if (content === undefined || sha256(content) === digest) return content
    throw new CraikError('tampered', `the saved content ${digest.slice(0, 12)}… was modified`, {
      hint: 'run the prompt again: these changes cannot be trusted',
    })
  }

  /** Removes contents that nothing names, and incomplete ones. */
  sweep(named: ReadonlySet<string>): void {
    for (const name of readdirSync(this.#folder))
      if (!named.has(name)) rmSync(join(this.#folder, name), { force: true })
  }
}

export function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}

/** Reads synchronously, because there can be thousands of small files. */
function readWhole(path: string): Buffer | undefined {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const found = fstatSync(file)
      return found.isFile() && found.size <= CHANGE_LIMITS.fileBytes ? readFileSync(file) : undefined
    } finally {
      closeSync(file)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function writeError(error: unknown): CraikError {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', 'no space left to save the changes of the run', { cause: error })
  return new CraikError('home_unwritable', `cannot save the changes of the run (${code})`, {
    cause: error,
  })
}
