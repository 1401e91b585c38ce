/**
 * Opens the user's folders for writing. They are entered by name and never through a link, and created when they do not
 * exist. A folder of another user, or one that all users can write to, is refused.
 */
import { lstat, mkdir } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { quoteArgument } from '../../lib/shlex.ts'

/** Opens the inbox itself. The caller closes it. */
export async function openInbox(typed: string): Promise<OpenFolder> {
  const path = resolve(typed)
  const parent = await OpenFolder.open(dirname(path)).catch((cause) => {
    throw new CraikError('not_found', `the parent folder of the inbox ${typed} does not exist`, {
      hint: `create it:  mkdir -p ${quoteArgument(dirname(path))}`,
      cause,
    })
  })
  try {
    return await enterOwn(parent, path === '/' ? '.' : basename(path), typed)
  } finally {
    await parent.close()
  }
}

/**
 * Creates the folder when it does not exist. Refuses a link, another user's folder, and a folder that all users can
 * write to. It accepts a folder that a group can write to: where each user has a group of their own, all folders are
 * like that. The members can remove what Craik writes there. They cannot read it, because new files and folders are
 * private, and cannot make Craik write elsewhere.
 */
export async function enterOwn(parent: OpenFolder, name: string, shown: string): Promise<OpenFolder> {
  await mkdir(parent.at(name), 0o700).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw toExportError(error, shown)
  })
  const found = await lstat(parent.at(name)).catch(() => undefined)
  const refuse = (problem: string, hint: string) =>
    new CraikError('export_failed', `cannot write to ${shown}: ${problem}`, { hint })
  if (found?.isSymbolicLink())
    throw refuse('it is a symbolic link', `use its target:  --inbox "$(readlink -f ${quoteArgument(shown)})"`)
  if (found?.isDirectory() !== true)
    throw refuse('it is not a folder', 'move it away, or choose another inbox')
  if (found.uid !== process.geteuid?.())
    throw refuse('it belongs to another user', 'choose a folder that you own')
  if ((found.mode & 0o002) !== 0)
    throw refuse('all users can write to it', `change its permissions:  chmod o-w ${quoteArgument(shown)}`)
  const entered = await parent.enter(name).catch((error) => {
    throw toExportError(error, shown)
  })
  // A group that can write to the parent can replace the folder between the checks and here.
  const { dev, ino } = await lstat(entered.at('.'))
  if (dev === found.dev && ino === found.ino) return entered
  await entered.close()
  throw refuse('it was replaced by another folder', 'check who can write to its parent folder')
}

/** Converts an error to one that names the path that could not be written. */
export function toExportError(error: unknown, shown: string): unknown {
  if (error instanceof CraikError && error.code !== 'home_unwritable') return error
  const cause = error instanceof CraikError ? error.cause : error
  const { code = 'unknown error' } = (cause ?? {}) as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `no space left to write to ${shown}`, { cause })
  return new CraikError('export_failed', `cannot write to ${shown} (${code})`, {
    hint: 'choose a folder that you can write to:  craik transcripts export --inbox DIR',
    cause,
  })
}
