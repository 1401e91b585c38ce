/**
 * Checks what Craik itself needs: its Node, the disk of its home, and the store. Without one of these nothing works.
 */
import { existsSync, readdirSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import { cacheOfHome } from '../../lib/user-cache.ts'
import type { Store } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import type { HealthRow } from './row.ts'

const OLDEST_NODE = 24
/** With less space, a sandbox's workspace may soon not fit. */
const LITTLE_DISK_BYTES = 2 * 2 ** 30
/** With less space, Craik may fail to write a receipt, and then nothing runs. */
const NO_DISK_BYTES = 64 * 2 ** 20
const OF_EARLIER_VERSIONS = /^(?:runtime|harnesses|v[0-9][\w.-]*)$/

export async function nodeHealth(): Promise<HealthRow> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const row = { name: 'node', version: `${major}.${minor}` }
  if (major < OLDEST_NODE)
    return { ...row, state: 'none', detail: `${OLDEST_NODE} or newer is required`, fix: 'npm ci' }
  const fromNpm = process.execPath.includes('/node_modules/')
  return { ...row, state: 'ok', detail: fromNpm ? 'runtime from npm' : 'runtime of this machine' }
}

export async function diskHealth({ home, environment }: CliContext): Promise<HealthRow> {
  const { bavail, bsize } = await statfs(nearestFolder(home.root))
  const freeBytes = bavail * bsize
  const row = { name: 'disk', detail: `${formatBytes(freeBytes)} free in the Craik home` }
  if (freeBytes >= LITTLE_DISK_BYTES) return { ...row, state: 'ok' }
  const removable = findRemovable(home.root, environment)
  // The cache is the first thing to delete: deleting a sandbox or a snapshot writes a receipt, which needs a little
  // space.
  if (freeBytes < NO_DISK_BYTES && removable.length > 0)
    return {
      ...row,
      state: 'none',
      fix: `rm -r ${removable.map(quoteArgument).join(' ')} && craik sandbox list`,
    }
  const state = freeBytes < NO_DISK_BYTES ? 'none' : 'warn'
  return { ...row, state, fix: `du -xh ${quoteArgument(home.root)} | sort -h | tail` }
}

/**
 * Returns the folders of the home that earlier versions filled with packages and compiled code, which nothing uses now,
 * or else the cache of the home, which Craik creates again. Image builds still use `cache/images` in the home.
 */
export function findRemovable(craikHome: string, environment: NodeJS.ProcessEnv): readonly string[] {
  const earlier = join(craikHome, 'cache')
  const unused = namesIn(earlier).filter((name) => OF_EARLIER_VERSIONS.test(name))
  if (unused.length > 0) return unused.sort().map((name) => join(earlier, name))
  const cache = cacheOfHome(craikHome, environment)
  return existsSync(cache) ? [cache] : []
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Does not create a store just to check it. */
export async function storeHealth(context: CliContext): Promise<HealthRow> {
  const name = 'store'
  if (!existsSync(context.home.database))
    return { name, state: 'ok', detail: 'empty: created by the first command that writes' }
  try {
    const { size } = await stat(context.home.database)
    const receipts = await countReceipts(await context.store())
    return { name, state: 'ok', detail: `${receipts.toLocaleString('en')} receipts, ${formatBytes(size)}` }
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    return { name, state: 'none', detail: error.message, ...(error.hint === '' ? {} : { fix: error.hint }) }
  }
}

function countReceipts(store: Store): Promise<number> {
  return store.read(async (tables) => {
    const last = await tables.receipts.last()
    return last === undefined ? 0 : last.seq + 1
  })
}

function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path))
}
