/**
 * Finds sockets in a folder to mount, because every process that reaches a socket file can connect to the program that
 * listens there.
 */
import type { Dirent } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'

const MAX_ENTRIES = 2_000_000
const MAX_NAMED = 5

export interface SocketSearch {
  /** The name of the folder in an error, and what the user can do instead of mounting it. */
  readonly what?: string
  readonly instead?: string
  /** Also finds named pipes. In a read-only folder, they are the only other way to reach a program of the host. */
  readonly pipes?: boolean
  readonly maxEntries?: number
}

/** Refuses a folder that contains sockets, or more files than Craik can check. Follows no links. */
export async function refuseSockets(
  folder: string,
  {
    what = 'the workspace',
    instead = COPY_INSTEAD,
    pipes = false,
    maxEntries = MAX_ENTRIES,
  }: SocketSearch = {},
): Promise<void> {
  const refusal = (why: string, remedy = '') =>
    new CraikError('usage', `${what} ${why}`, { hint: `${remedy}${instead}` })
  const found: string[] = []
  const waiting = [folder]
  let left = maxEntries
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const entry of await entriesOf(next, refusal)) {
      if (--left < 0) throw refusal('contains more files than Craik can check for sockets')
      if (entry.isDirectory()) waiting.push(join(next, entry.name))
      if (entry.isSocket() || (pipes && entry.isFIFO())) found.push(relative(folder, join(next, entry.name)))
    }
  }
  if (found.length === 0) return
  const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : ''
  throw refusal(
    `contains sockets${pipes ? ' or pipes' : ''} of the host: ${found.slice(0, MAX_NAMED).join(', ')}${more}`,
    // A socket file remains when its program was killed, and any program can listen there next.
    'stop the programs that listen there, remove their socket files, or ',
  )
}

/**
 * Returns no entries for an unreadable folder of another user, because the sandbox cannot read it either. An unreadable
 * folder of this user is refused, because the sandbox could make it readable.
 */
async function entriesOf(folder: string, refusal: (why: string) => CraikError): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    const stats = await lstat(folder).catch(() => undefined)
    if (code === 'EACCES' && stats !== undefined && stats.uid !== process.getuid?.()) return []
    throw refusal(`contains a folder that cannot be read (${code})`)
  }
}
