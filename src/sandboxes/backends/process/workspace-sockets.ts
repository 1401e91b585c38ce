/** Finds sockets in a folder that is to be shown: whoever can name one can speak to the program that listens there. */
import type { Dirent } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { COPY_INSTEAD } from '../../outdated-sandbox.ts'

const MAX_ENTRIES = 2_000_000
const MAX_NAMED = 5

export interface SocketSearch {
  /** What the folder is called in a refusal, and what can be done in place of showing it. */
  readonly what?: string
  readonly instead?: string
  /** Named pipes too: what cannot be written to has no other way to reach a program of the host either. */
  readonly pipes?: boolean
  readonly maxEntries?: number
}

/** Refuses a folder that holds sockets, or more than can be looked through. Follows no links. */
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
    // A file stays when a program was killed, and nobody can tell who will listen there next.
    'stop the programs that listen there, remove their socket files, or ',
  )
}

/** A folder of somebody else that is closed to us is closed to the sandbox; one of our own it could open. */
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
