/** What `craik sandbox cp` was told: a side inside a sandbox, and a side on this machine. */
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { shown } from './amounts.ts'

export interface CopySpec {
  readonly direction: 'in' | 'out'
  readonly sandbox: string
  /** Inside; the workspace when nothing stands after the colon. */
  readonly inside: string
  /** On this machine. */
  readonly local: string
}

/** In place of a file of this machine: standard output. A file of that name is written ./- */
export const STDOUT = '-'

/**
 * A name or id before the first colon. With a slash before it, or a dot in front, it is a path of this machine, and so
 * is `C:\notes.txt`.
 */
const REMOTE = /^(?![A-Za-z]:\\)([A-Za-z0-9][A-Za-z0-9._@-]*):([\s\S]*)$/

export function parseCopy(source: string, destination: string): CopySpec {
  const from = remoteSide(source)
  const to = remoteSide(destination)
  if (from !== undefined && to !== undefined)
    throw new CraikError('usage', 'both sides name a sandbox', {
      hint: 'copy to this machine first; a file here with a colon in its name is written ./a:b',
    })
  const remote = from ?? to
  if (remote === undefined)
    throw new CraikError('usage', 'neither side names a sandbox', {
      hint: 'write one side as ID:PATH, such as craik sandbox cp notes.txt parser:notes.txt',
    })
  const local = from === undefined ? source : destination
  for (const path of [local, remote.inside]) {
    if (path.includes('\0')) throw new CraikError('usage', 'a path holds a NUL byte')
    if (Buffer.byteLength(path) > LIMITS.pathBytes)
      throw new CraikError('too_large', `a path of ${Buffer.byteLength(path).toLocaleString('en')} bytes`)
  }
  if (local === '')
    throw new CraikError('usage', 'the path on this machine is empty', { hint: 'write . for this folder' })
  if (local === STDOUT && from === undefined)
    throw new CraikError('usage', 'standard input is not copied', {
      hint: `pass it to a command:  craik sandbox exec ${remote.sandbox} -- tee FILE; a file of that name is written ./-`,
    })
  return { direction: from === undefined ? 'in' : 'out', local, ...remote }
}

function remoteSide(text: string): { readonly sandbox: string; readonly inside: string } | undefined {
  const match = REMOTE.exec(text)
  if (match === null) return undefined
  const sandbox = match[1]!
  if (sandbox.length > 200) throw new CraikError('usage', `${shown(sandbox)} is not a sandbox’s id or name`)
  return { sandbox, inside: match[2] === '' ? '.' : match[2]! }
}
