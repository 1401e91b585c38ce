/** The contents that a run keeps, each under its own SHA-256, and none larger than a file that is brought over. */
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
import { CHANGE_LIMITS } from './limits.ts'
import { SHA256 } from './manifest.ts'

export class ContentStore {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  create(): void {
    ensurePrivateFolder(this.#folder, 'contents folder')
  }

  /**
   * Neither beside its place first nor waited for until it is on the disk: what is read later is held against its digest,
   * and nothing names it before all are there.
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

  /** Undefined when it was not kept. What is not what it was kept as is refused. */
  get(digest: string): Buffer | undefined {
    if (!SHA256.test(digest)) return undefined
    const content = readWhole(join(this.#folder, digest))
    if (content === undefined || sha256(content) === digest) return content
    throw new CraikError('tampered', `the saved content ${digest.slice(0, 12)}… was modified`, {
      hint: 'run the prompt again: these changes cannot be trusted',
    })
  }

  /** Removes what nothing names any more, and what was begun and never finished. */
  sweep(named: ReadonlySet<string>): void {
    for (const name of readdirSync(this.#folder))
      if (!named.has(name)) rmSync(join(this.#folder, name), { force: true })
  }
}

export function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}

/** At once, because there may be thousands, and each is small. */
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
