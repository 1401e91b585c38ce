/** Reports what is at a path and in a folder, without following links. */
import type { Stats } from 'node:fs'
import { lstat, opendir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileList, type FileStat, LIMITS } from '../protocol.ts'
import { queryNumber, type RouteCall, SidecarError } from '../router.ts'
import { answerFor, pathOfQuery } from './request-path.ts'

export async function answerStat(call: RouteCall, workspace: string): Promise<void> {
  const path = pathOfQuery(call.query, workspace)
  try {
    call.answer(200, await statOf(path))
  } catch (error) {
    throw answerFor(error, path)
  }
}

export async function answerList(call: RouteCall, workspace: string): Promise<void> {
  const path = pathOfQuery(call.query, workspace)
  const limit = queryNumber(call.query, 'limit', LIMITS.listEntries, LIMITS.listEntries)
  if (limit === 0) throw new SidecarError('usage', `limit must be from 1 to ${LIMITS.listEntries}`)
  try {
    call.answer(200, await listOf(path, call.query.get('after') ?? '', limit, call.signal))
  } catch (error) {
    throw answerFor(error, path)
  }
}

/** The size limit of the entries of one response. The rest of the response fits between it and the host's limit. */
const PAGE_BYTES = LIMITS.jsonBytes - 16 * 1024

async function listOf(path: string, after: string, limit: number, until: AbortSignal): Promise<FileList> {
  // Reads one more than requested, to find out whether there are more.
  const names = await smallestNames(path, after, limit + 1, until)
  const entries: FileStat[] = []
  let bytes = 0
  let last = after
  for (const [index, stat] of (await statAll(path, names.slice(0, limit))).entries()) {
    // Files that were removed meanwhile are not listed.
    const entryBytes = stat === undefined ? 0 : Buffer.byteLength(JSON.stringify(stat)) + 1
    if (bytes + entryBytes > PAGE_BYTES) return { path, entries, next: last }
    bytes += entryBytes
    last = names[index]!
    if (stat !== undefined) entries.push(stat)
  }
  return names.length > limit ? { path, entries, next: last } : { path, entries }
}

/**
 * Returns the first names after `after`, in order. A folder can contain more names than fit into memory, so only names
 * are kept that can still be among the first.
 */
async function smallestNames(
  path: string,
  after: string,
  count: number,
  until: AbortSignal,
): Promise<string[]> {
  const stored: string[] = []
  for await (const { name } of await opendir(path, { bufferSize: 1024 })) {
    if (until.aborted) break
    if (name <= after || (stored.length === count && name >= stored[count - 1]!)) continue
    stored.splice(findPosition(stored, name), 0, name)
    if (stored.length > count) stored.pop()
  }
  return stored
}

function findPosition(sorted: readonly string[], name: string): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! < name) low = middle + 1
    else high = middle
  }
  return low
}

function statAll(path: string, names: readonly string[]): Promise<(FileStat | undefined)[]> {
  return Promise.all(names.map((name) => statOf(join(path, name)).catch(() => undefined)))
}

async function statOf(path: string): Promise<FileStat> {
  const stat = await lstat(path)
  return {
    path,
    type: typeOf(stat),
    bytes: Math.min(stat.size, Number.MAX_SAFE_INTEGER),
    mode: stat.mode & 0o7777,
    modifiedAtMs: Math.floor(stat.mtimeMs),
    ...(stat.isSymbolicLink() ? { target: await readlink(path) } : {}),
  }
}

function typeOf(stat: Stats): FileStat['type'] {
  if (stat.isFile()) return 'file'
  if (stat.isDirectory()) return 'folder'
  if (stat.isSymbolicLink()) return 'link'
  if (stat.isSocket()) return 'socket'
  return stat.isFIFO() ? 'fifo' : 'device'
}
