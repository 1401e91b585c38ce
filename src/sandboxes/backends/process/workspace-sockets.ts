/** Finds sockets in a folder that is to be shown: whoever can name one can speak to the program that listens there. */
import type { Dirent } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { CraikError } from '../../../errors.ts'

const MAX_ENTRIES = 2_000_000
const MAX_NAMED = 5

/** Refuses a folder that holds sockets, or more than can be looked through. Follows no links. */
export async function refuseSockets(folder: string, maxEntries = MAX_ENTRIES): Promise<void> {
  const found: string[] = []
  const waiting = [folder]
  let left = maxEntries
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const entry of await entriesOf(next)) {
      if (--left < 0) throw refusal('holds more files than can be checked for sockets')
      if (entry.isDirectory()) waiting.push(join(next, entry.name))
      if (entry.isSocket()) found.push(relative(folder, join(next, entry.name)))
    }
  }
  if (found.length === 0) return
  const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : ''
  throw refusal(`holds sockets of the host: ${found.slice(0, MAX_NAMED).join(', ')}${more}`)
}

/** A folder of somebody else that is closed to us is closed to the sandbox; one of our own it could open. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    const stats = await lstat(folder).catch(() => undefined)
    if (code === 'EACCES' && stats !== undefined && stats.uid !== process.getuid?.()) return []
    throw refusal(`holds a folder that cannot be looked through (${code})`)
  }
}

function refusal(why: string): CraikError {
  return new CraikError('usage', `the workspace ${why}`, {
    hint: 'end the programs that listen there, or work on a copy: leave out --in-place',
  })
}
