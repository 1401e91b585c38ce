/** Paths of a workspace as a sandbox names them, checked before anything uses them. */
import { z } from 'zod'
import { CHANGE_LIMITS } from './limits.ts'

/** No honest lister names a path that is absolute, climbs, or is not spelt the shortest way. */
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

/** The folders that a path lies in, the outermost first. */
export function foldersOf(path: string): readonly string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'))
}
