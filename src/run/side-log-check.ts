/** Compares the side logs of shell receipts with the hashes in the receipts. */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Receipt } from '../receipts/schema.ts'
import { sideLogPath } from './side-log.ts'

/** A side log must be a regular file: Craik follows no link and does not wait for a pipe. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const CHUNK_BYTES = 256 * 1024

export interface SideLogCheck {
  readonly checked: number
  readonly missing: readonly string[]
  readonly tampered: readonly string[]
}

/** Lines are read before their checkpoint. The verifier reports a line that is not JSON after an edit. */
function shellOf(line: Buffer): Partial<NonNullable<Receipt['body']['shell']>> | undefined {
  try {
    return (JSON.parse(line.toString()) as Receipt).body.shell
  } catch {
    return undefined
  }
}

export class SideLogChecker {
  readonly #folder: string
  /** The length of each log by its digest. */
  readonly #bytes = new Map<string, number>()

  readonly #unnamed = new Set<string>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Reads every line of the log, and uses those of shell invocations. */
  receipt(line: Buffer): void {
    if (!line.includes('"shell":{')) return
    const shell = shellOf(line)
    for (const stream of [shell?.stdout, shell?.stderr]) {
      if (stream === undefined || stream === null) continue
      const { sha256, bytes } = stream
      // Craik wrote no receipt that names its log by anything but a hash and a length.
      const isLog = /^[0-9a-f]{64}$/.test(String(sha256)) && Number.isSafeInteger(bytes) && bytes >= 0
      if (!isLog) this.#unnamed.add(String(sha256))
      else this.#bytes.set(sha256, Math.min(bytes, this.#bytes.get(sha256) ?? bytes))
    }
  }

  /** `onProgress` can throw, to stop within a long log. */
  async finish(onProgress: (checked: number) => Promise<void> = async () => {}): Promise<SideLogCheck> {
    const missing: string[] = []
    const tampered = [...this.#unnamed]
    let checked = 0
    for (const [digest, bytes] of this.#bytes) {
      const found = await this.#compare(digest, bytes, () => onProgress(checked))
      if (found === 'missing') missing.push(digest)
      if (found === 'tampered') tampered.push(digest)
      checked++
    }
    return { checked: checked + this.#unnamed.size, missing, tampered }
  }

  async #compare(digest: string, bytes: number, onPiece: () => Promise<void>) {
    await onPiece()
    const opened = await open(sideLogPath(this.#folder, digest), READ).catch(
      ({ code }: NodeJS.ErrnoException) => (code === 'ENOENT' ? 'missing' : 'tampered'),
    )
    if (typeof opened === 'string') return opened
    await using file = opened
    const stats = await file.stat()
    if (!stats.isFile() || stats.size !== bytes) return 'tampered'
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
    // Reads one byte past the recorded length, because a file can grow while it is read.
    for (let length = 0; length <= bytes; await onPiece()) {
      const read = await file.read(buffer, 0, Math.min(CHUNK_BYTES, bytes + 1 - length), length)
      if (read.bytesRead === 0) break
      hash.update(buffer.subarray(0, read.bytesRead))
      length += read.bytesRead
    }
    return hash.digest('hex') === digest ? 'intact' : 'tampered'
  }
}
