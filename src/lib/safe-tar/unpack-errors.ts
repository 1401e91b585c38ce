/** The errors of unpacking an archive, with hints that say what to do. */
import { CraikError } from '../../errors.ts'
import { quoteName } from './entry-names.ts'

/** `entry` is the one that exceeds the limit. */
export function limitError(of: 'entries' | 'bytes', limit: number, entry: string): CraikError {
  return new CraikError(
    'too_large',
    `cannot unpack ${quoteName(entry)}: the archive exceeds the limit of ${limit.toLocaleString('en')} ${of}`,
    {
      hint: 'copy less at a time, such as one of its folders',
      details: { beyond: of, entry: quoteName(entry) },
    },
  )
}

/** Translates an error of the system into one that names the entry and the folder. */
export function translateUnpackError(
  error: unknown,
  entry: string,
  folder: string,
  until: AbortSignal,
): unknown {
  if (error instanceof CraikError) return error
  // Node destroys the archive's stream with an error of its own instead of the signal's reason.
  if (until.aborted) return (error as Error).name === 'AbortError' ? until.reason : error
  const { code, syscall } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `cannot unpack ${entry} into ${folder}: the disk is full`, {
      cause: error,
    })
  if (code === 'EFBIG')
    return new CraikError(
      'too_large',
      `cannot unpack ${entry} into ${folder}: it exceeds the maximum file size (${code})`,
      { hint: 'check ulimit -f and the limits of the file system', cause: error },
    )
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new CraikError('usage', `cannot unpack ${entry} into ${folder}: permission denied (${code})`, {
      hint: 'choose a folder that you can write to',
      cause: error,
    })
  // An error of the archive's own stream belongs to the caller.
  if (syscall === undefined) return error
  if (code === 'EIO')
    return new CraikError('usage', `cannot unpack ${entry} into ${folder}: disk error (${code})`, {
      hint: 'choose a folder on another disk',
      cause: error,
    })
  return new CraikError(
    'conflict',
    `cannot unpack ${entry} into ${folder}: the folder changed meanwhile (${syscall}: ${code})`,
    { hint: 'choose a folder that no other program changes', cause: error },
  )
}
