/** Compares the side logs of shell receipts with the hashes that the receipts hold. */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Receipt } from '../receipts/schema.ts'
import { sideLogPath } from './side-log.ts'

/** A side log is a file of its own: no link to another, and no pipe that is waited for. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
const CHUNK_BYTES = 256 * 1024

export interface SideLogCheck {
  readonly checked: number
  readonly missing: readonly string[]
  readonly tampered: readonly string[]
}

/** Lines come before their checkpoint is reached. One that was edited until it is no JSON is the verifier's finding. */
function shellOf(line: Buffer): Partial<NonNullable<Receipt['body']['shell']>> | undefined {
  try {
    return (JSON.parse(line.toString()) as Receipt).body.shell
  } catch {
    return undefined
  }
}

export class SideLogChecker {
  readonly #folder: string
  /** How long each log is, by its digest. */
  readonly #bytes = new Map<string, number>()

  readonly #unnamed = new Set<string>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Takes every line of the log; only shell invocations matter. */
  receipt(line: Buffer): void {
    if (!line.includes('"shell":{')) return
    const shell = shellOf(line)
    for (const stream of [shell?.stdout, shell?.stderr]) {
      if (stream === undefined || stream === null) continue
      const { sha256, bytes } = stream
      // A receipt that names its log by anything but a hash and a length was not written by us.
      const isLog = /^[0-9a-f]{64}$/.test(String(sha256)) && Number.isSafeInteger(bytes) && bytes >= 0
      if (!isLog) this.#unnamed.add(String(sha256))
      else this.#bytes.set(sha256, Math.min(bytes, this.#bytes.get(sha256) ?? bytes))
    }
  }

  /** `onProgress` may throw, to stop between two pieces of a long log. */
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
    // One byte further than it was long: a file may grow while it is read.
    for (let length = 0; length <= bytes; await onPiece()) {
      const read = await file.read(buffer, 0, Math.min(CHUNK_BYTES, bytes + 1 - length), length)
      if (read.bytesRead === 0) break
      hash.update(buffer.subarray(0, read.bytesRead))
      length += read.bytesRead
    }
    return hash.digest('hex') === digest ? 'intact' : 'tampered'
  }
}
