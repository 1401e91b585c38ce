/** Workspace paths from a sandbox, which are validated before use. */
import { z } from 'zod'
import { CHANGE_LIMITS } from './change-limits.ts'

/** A correct list contains no path that is absolute, contains `..` or is not in its shortest form. */
export const workspacePath = z
  .string()
  .min(1)
  .refine((path) => Buffer.byteLength(path) <= CHANGE_LIMITS.pathBytes, 'is too long')
  .refine((path) => path.isWellFormed() && !path.includes('\0'), 'is not a valid file name')
  .refine(
    (path) => path.split('/').every((part) => part !== '' && part !== '.' && part !== '..'),
    'is not a normalized relative path',
  )

export const linkTarget = z
  .string()
  .min(1)
  .refine((target) => Buffer.byteLength(target) <= CHANGE_LIMITS.pathBytes, 'is too long')
  .refine((target) => target.isWellFormed() && !target.includes('\0'), 'is not a valid path')

/** Returns the parent folders of a path, outermost first. */
export function foldersOf(path: string): readonly string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'))
}
