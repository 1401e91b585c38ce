/** Parses the paths in requests, and translates system errors about them to the sidecar's errors. */
import { resolve } from 'node:path'
import { LIMITS, type SidecarErrorCode } from '../protocol.ts'
import { queryPath, SidecarError } from '../router.ts'

/** Absolute paths stay as they are. Others are relative to the workspace. */
export function pathOfQuery(query: URLSearchParams, workspace: string): string {
  return resolve(workspace, queryPath(query))
}

/** Returns a path in a JSON body, under the same rules as one in a query. */
export function pathOfBody(body: unknown, name: string, workspace: string): string {
  const value = fieldOf(body, name)
  if (typeof value !== 'string' || value === '') throw new SidecarError('usage', `${name} must be a path`)
  if (value.includes('\0')) throw new SidecarError('usage', `${name} contains a NUL`)
  if (Buffer.byteLength(value) > LIMITS.pathBytes)
    throw new SidecarError('too_large', `${name} is longer than ${LIMITS.pathBytes} bytes`)
  return resolve(workspace, value)
}

/** Returns a boolean in a JSON body, or false when it is missing. */
export function flagOfBody(body: unknown, name: string): boolean {
  const value = fieldOf(body, name)
  if (value === undefined) return false
  if (typeof value !== 'boolean') throw new SidecarError('usage', `${name} must be true or false`)
  return value
}

const MEANINGS: Readonly<Record<string, readonly [SidecarErrorCode, string]>> = {
  ENOENT: ['not_found', 'does not exist'],
  ENOTDIR: ['conflict', 'a part of the path is not a folder'],
  EISDIR: ['conflict', 'is a folder'],
  EEXIST: ['conflict', 'already exists'],
  ENOTEMPTY: ['conflict', 'is a folder that is not empty'],
  EINVAL: ['conflict', 'this operation is not possible with this path'],
  EBUSY: ['conflict', 'is in use'],
  ETXTBSY: ['conflict', 'is a running program'],
  ELOOP: ['conflict', 'has too many symbolic links'],
  ENXIO: ['usage', 'is not a regular file'],
  ENAMETOOLONG: ['too_large', 'has a name that is too long'],
  EFBIG: ['too_large', 'would exceed the maximum file size'],
  EACCES: ['refused', 'permission denied for the user of the sandbox'],
  EPERM: ['refused', 'permission denied for the user of the sandbox'],
  EROFS: ['refused', 'is on a read-only file system'],
  ENOSPC: ['full', 'the disk of the sandbox is full'],
  EDQUOT: ['full', 'the disk of the sandbox is full'],
  EMFILE: ['busy', 'too many files are open'],
  ENFILE: ['busy', 'too many files are open'],
  ENOMEM: ['busy', 'out of memory'],
}

/** Translates a system error about a path to a response. Other errors stay as they are. */
export function answerFor(error: unknown, path: string): unknown {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  const meaning = typeof code === 'string' && !(error instanceof SidecarError) ? MEANINGS[code] : undefined
  if (meaning === undefined) return error
  return new SidecarError(meaning[0], `${path}: ${meaning[1]} (${code})`, { cause: error })
}

function fieldOf(body: unknown, name: string): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new SidecarError('usage', 'the request body must be a JSON object')
  return Object.hasOwn(body, name) ? (body as Record<string, unknown>)[name] : undefined
}
