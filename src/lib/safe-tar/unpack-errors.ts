/** What can go wrong while an archive is unpacked, as errors that say what to do about it. */
import { CraikError } from '../../errors.ts'
import { shown } from './names.ts'

/** `entry` is the one that goes beyond. */
export function beyond(of: 'entries' | 'bytes', limit: number, entry: string): CraikError {
  return new CraikError(
    'too_large',
    `with ${shown(entry)} the archive holds more than ${limit.toLocaleString('en')} ${of}, which is the most that is unpacked`,
    { hint: 'copy less at once, such as one folder of it', details: { beyond: of, entry: shown(entry) } },
  )
}

/** What the system says, told of the entry and the folder that it is about. */
export function translated(error: unknown, entry: string, folder: string, until: AbortSignal): unknown {
  if (error instanceof CraikError || until.aborted) return error
  const { code, syscall } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `unpacking ${entry} into ${folder}: the disk is full`, {
      cause: error,
    })
  if (code === 'EFBIG')
    return new CraikError(
      'too_large',
      `unpacking ${entry} into ${folder}: larger than a file may become there (${code})`,
      { hint: 'see ulimit -f, and what the file system allows', cause: error },
    )
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new CraikError('usage', `unpacking ${entry} into ${folder}: not permitted (${code})`, {
      hint: 'choose a folder that you may write to',
      cause: error,
    })
  // What the archive's stream says of itself is the caller's.
  if (syscall === undefined) return error
  if (code === 'EIO')
    return new CraikError('usage', `unpacking ${entry} into ${folder}: the disk fails (${code})`, {
      hint: 'choose a folder on another disk',
      cause: error,
    })
  return new CraikError(
    'conflict',
    `unpacking ${entry} into ${folder}: it changed meanwhile (${syscall}: ${code})`,
    { hint: 'unpack into a folder that nobody else works in', cause: error },
  )
}
