/** Searches for leaked secrets, in every encoding that a program could give them by accident. */
import { spawnSync } from 'node:child_process'
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs'
import { join } from 'node:path'

export interface Hunt {
  /** The real secrets, each with at least 16 characters. */
  readonly secrets: readonly string[]
  /**
   * The folders to search, with everything below them: a Craik home, the root of a sandbox as its processes see it, the
   * layers of an image.
   */
  readonly folders: readonly string[]
  /** The texts to search: logs, receipts, inspections, output of commands. */
  readonly texts?: Readonly<Record<string, string | Buffer>>
  /** The paths where a secret may be, such as the host's own login. */
  readonly except?: readonly string[]
  /** Whether processes are searched (default: true). */
  readonly processes?: boolean
}

const PIECE_BYTES = 1024 * 1024
const BLOCK_BYTES = 512
/** The disks of sandboxes are sparse files. */
const SPARSE_BYTES = 64 * 1024 * 1024
/** Virtual file systems of the kernel, in which a read can block or have effects. */
const NOT_FILES = ['/proc', '/sys', '/dev']

/** Returns the location of each leak, without the secret. */
export function huntLeaks(hunt: Hunt): string[] {
  const needles = hunt.secrets.flatMap(encodingsOf)
  const found: string[] = []
  for (const folder of hunt.folders) searchTree(folder, folder, needles, hunt.except ?? [], found)
  for (const [name, text] of Object.entries(hunt.texts ?? {}))
    if (holds(Buffer.from(text), needles)) found.push(`text: ${name}`)
  if (hunt.processes !== false) found.push(...searchProcesses(needles))
  return found
}

function encodingsOf(secret: string): Buffer[] {
  if (secret.length < 16) throw new Error('so short a secret is found everywhere')
  const bytes = Buffer.from(secret)
  // The base64 of a secret depends on the number of bytes before it. Searches for the part that is the same in each
  // case.
  const encoded = [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const inner = text.slice(Math.ceil((before * 4) / 3), -2)
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')]
  })
  const texts = [
    secret,
    encodeURIComponent(secret),
    bytes.toString('hex'),
    JSON.stringify(secret).slice(1, -1),
    ...encoded,
  ]
  return [...[...new Set(texts)].map((text) => Buffer.from(text)), Buffer.from(secret, 'utf16le')]
}

function holds(bytes: Buffer, needles: readonly Buffer[]): boolean {
  return needles.some((needle) => bytes.includes(needle))
}

function searchTree(
  root: string,
  path: string,
  needles: readonly Buffer[],
  except: readonly string[],
  found: string[],
): void {
  if (except.includes(path) || NOT_FILES.includes(path.slice(root.length))) return
  // The root of another process is given as a link. Links below it are not followed.
  const look = path === root ? statSync : lstatSync
  const stats = look(path, { throwIfNoEntry: false })
  if (stats === undefined) return
  if (holds(Buffer.from(path), needles)) found.push(`name: ${path}`)
  if (stats.isFile() && searchFile(path, stats, needles)) found.push(`file: ${path}`)
  if (!stats.isDirectory()) return
  let names: string[] = []
  try {
    names = readdirSync(path)
  } catch {
    // The folder is gone, or is a mount whose other end is gone.
  }
  for (const name of names) searchTree(root, join(path, name), needles, except, found)
}

function searchFile(path: string, { size, blocks }: Stats, needles: readonly Buffer[]): boolean {
  const heldBytes = blocks * BLOCK_BYTES
  if (size - heldBytes > SPARSE_BYTES) return holds(withoutHoles(path, heldBytes), needles)
  let file: number
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return false
  }
  try {
    const overlap = Math.max(...needles.map(({ length }) => length))
    const buffer = Buffer.alloc(PIECE_BYTES + overlap)
    let stored = 0
    if (!fstatSync(file).isFile()) return false
    for (;;) {
      const read = readSync(file, buffer, stored, PIECE_BYTES, null)
      if (read === 0) return false
      if (holds(buffer.subarray(0, stored + read), needles)) return true
      const end = stored + read
      stored = Math.min(overlap, end)
      buffer.copyWithin(0, end - stored, end)
    }
  } catch {
    return false
  } finally {
    closeSync(file)
  }
}

/** Returns the data of a sparse file. `tar` finds it without reading the holes. */
function withoutHoles(path: string, heldBytes: number): Buffer {
  const { status, stdout } = spawnSync('tar', ['--sparse', '-cf', '-', '-P', path], {
    maxBuffer: 2 * heldBytes + SPARSE_BYTES,
  })
  // `tar` exits with 1 when the file changed while it was read.
  if (status === null || status > 1) throw new Error(`${path} could not be searched`)
  return stdout
}

/** Searches what other users of the host could read about a process: its arguments and its environment. */
function searchProcesses(needles: readonly Buffer[]): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) =>
      ['environ', 'cmdline'].flatMap((what) => {
        try {
          return holds(readFileSync(`/proc/${pid}/${what}`), needles) ? [`process ${pid}: ${what}`] : []
        } catch {
          return []
        }
      }),
    )
}
