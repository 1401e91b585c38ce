/** Writes a file that gets its name only when it is complete. It never replaces another file. */
import { randomBytes } from 'node:crypto'
import { link, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CraikError } from '../../errors.ts'

/** The error codes of file systems without hard links, such as those of USB sticks. */
const NO_LINKS: readonly unknown[] = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']

export async function writeNewFile(path: string, content: AsyncIterable<string>): Promise<void> {
  const temporary = join(dirname(path), `.craik-${randomBytes(8).toString('hex')}.part`)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    // `flush` syncs the file before it closes.
    await pipeline(content, file.createWriteStream({ flush: true }))
    await nameFile(temporary, path)
  } catch (error) {
    throw toWriteError(path, error)
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Fails with EEXIST if the name is in use. */
async function nameFile(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path)
  } catch (error) {
    if (!NO_LINKS.includes((error as NodeJS.ErrnoException).code)) throw error
    // An empty file takes the name first, because `rename` replaces whatever has it.
    await (await open(path, 'wx', 0o600)).close()
    await rename(temporary, path).catch(async (failure) => {
      await rm(path, { force: true })
      throw failure
    })
  }
}

/** Converts errors of the file system. Other errors come from the content. */
function toWriteError(path: string, error: unknown): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException
  if (error instanceof CraikError || syscall === undefined) return error
  if (code === 'EEXIST') return existsError(path)
  return cannotWrite(path, error as NodeJS.ErrnoException)
}

export function existsError(path: string): CraikError {
  return new CraikError('conflict', `the file ${path} already exists`, {
    hint: 'choose another name, or remove the file first',
  })
}

export function cannotWrite(path: string | undefined, error: NodeJS.ErrnoException): CraikError {
  if (error.code === 'ENOSPC')
    return new CraikError('disk_full', 'the disk is full: the export is incomplete', { cause: error })
  return new CraikError('usage', `cannot write ${path ?? 'the output'} (${error.code})`, {
    hint: 'check the name and the permissions of its folder',
    cause: error,
  })
}
