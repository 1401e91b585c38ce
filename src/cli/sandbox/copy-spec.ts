/** Parses the arguments of `craik sandbox cp`: one side in a sandbox, and one side on the host. */
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { quoteText } from './amounts.ts'

export interface CopySpec {
  readonly direction: 'in' | 'out'
  readonly sandbox: string
  /** The path in the sandbox, or the workspace if nothing follows the colon. */
  readonly inside: string
  /** The path on the host. */
  readonly local: string
}

/** Means standard output instead of a file on the host. Users write a file of that name as `./-`. */
export const STDOUT = '-'

/**
 * A name or id before the first colon. With a slash before the colon, or a dot in front, it is a path on the host, and
 * so is `C:\notes.txt`.
 */
const REMOTE = /^(?![A-Za-z]:\\)([A-Za-z0-9][A-Za-z0-9._@-]*):([\s\S]*)$/

export function parseCopy(source: string, destination: string): CopySpec {
  const from = remoteSide(source)
  const to = remoteSide(destination)
  if (from !== undefined && to !== undefined)
    throw new CraikError('usage', 'both paths name a sandbox', {
      hint: 'copy the file to this machine first; write a local name with a colon as ./a:b',
    })
  const remote = from ?? to
  if (remote === undefined)
    throw new CraikError('usage', 'neither path names a sandbox', {
      hint: 'write one of them as ID:PATH:  craik sandbox cp notes.txt parser:notes.txt',
    })
  const local = from === undefined ? source : destination
  for (const path of [local, remote.inside]) {
    if (path.includes('\0')) throw new CraikError('usage', 'a path contains a NUL byte')
    if (Buffer.byteLength(path) > LIMITS.pathBytes)
      throw new CraikError(
        'too_large',
        `a path of ${Buffer.byteLength(path).toLocaleString('en')} bytes is too long`,
      )
  }
  if (local === '')
    throw new CraikError('usage', 'the local path is empty', { hint: 'use . for this folder' })
  if (local === STDOUT && from === undefined)
    throw new CraikError('usage', 'cannot copy standard input', {
      hint: `pipe standard input to a command:  craik sandbox exec ${remote.sandbox} -- tee FILE; write a local file named - as ./-`,
    })
  return { direction: from === undefined ? 'in' : 'out', local, ...remote }
}

function remoteSide(text: string): { readonly sandbox: string; readonly inside: string } | undefined {
  const match = REMOTE.exec(text)
  if (match === null) return undefined
  const sandbox = match[1]!
  if (sandbox.length > 200)
    throw new CraikError('usage', `${quoteText(sandbox)} is not the id or name of a sandbox`)
  return { sandbox, inside: match[2] === '' ? '.' : match[2]! }
}
