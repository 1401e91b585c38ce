/** Looks for a secret wherever it has no business to be, in every spelling that a program would give it by accident. */
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
  /** The real ones, each at least 16 characters. */
  readonly secrets: readonly string[]
  /** Everything below them is read: a home of Craik's, the root of a sandbox as its processes see it, an image's layers. */
  readonly folders: readonly string[]
  /** Texts that were said: logs, receipts, inspections, what commands printed. */
  readonly texts?: Readonly<Record<string, string | Buffer>>
  /** Where a secret belongs: the host's own login. */
  readonly except?: readonly string[]
  /** False: processes are not looked at. */
  readonly processes?: boolean
}

const PIECE_BYTES = 1024 * 1024
const BLOCK_BYTES = 512
/** Disks of sandboxes are files that are mostly holes. */
const SPARSE_BYTES = 64 * 1024 * 1024
/** File systems of the kernel's own, in which reading may wait or act. */
const NOT_FILES = ['/proc', '/sys', '/dev']

/** Where one was found, without the secret itself. */
export function huntLeaks(hunt: Hunt): string[] {
  const needles = hunt.secrets.flatMap(spellings)
  const found: string[] = []
  for (const folder of hunt.folders) searchTree(folder, folder, needles, hunt.except ?? [], found)
  for (const [name, text] of Object.entries(hunt.texts ?? {}))
    if (holds(Buffer.from(text), needles)) found.push(`text: ${name}`)
  if (hunt.processes !== false) found.push(...searchProcesses(needles))
  return found
}

function spellings(secret: string): Buffer[] {
  if (secret.length < 16) throw new Error('so short a secret is found everywhere')
  const bytes = Buffer.from(secret)
  // Base64 of the same bytes depends on how many come before them: what is the same in each case is looked for.
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
  // The root of another process is told by a link; links below it are not followed.
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
    // It went away, or is a mount whose other end is gone.
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

/** All that a file holds, which `tar` finds without reading the holes. */
function withoutHoles(path: string, heldBytes: number): Buffer {
  const { status, stdout } = spawnSync('tar', ['--sparse', '-cf', '-', '-P', path], {
    maxBuffer: 2 * heldBytes + SPARSE_BYTES,
  })
  // It changed while it was read: then 1.
  if (status === null || status > 1) throw new Error(`${path} could not be searched`)
  return stdout
}

/** What anybody on the machine could see of the processes: what they were started with. */
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
