/** Compares the side logs of shell receipts with the hashes that the receipts hold. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import type { Receipt } from '../receipts/schema.ts'
import { sideLogPath } from './side-log.ts'

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
  readonly #digests = new Set<string>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Takes every line of the log; only shell invocations matter. */
  receipt(line: Buffer): void {
    if (!line.includes('"shell":{')) return
    const shell = shellOf(line)
    for (const stream of [shell?.stdout, shell?.stderr]) {
      if (stream !== undefined) this.#digests.add(String(stream.sha256))
    }
  }

  async finish(): Promise<SideLogCheck> {
    const missing: string[] = []
    const tampered: string[] = []
    for (const digest of this.#digests) {
      const found = await this.#hashOf(digest)
      if (found === undefined) missing.push(digest)
      else if (found !== digest) tampered.push(digest)
    }
    return { checked: this.#digests.size, missing, tampered }
  }

  async #hashOf(digest: string): Promise<string | undefined> {
    // A receipt that names its log by anything but a hash was not written by us.
    if (!/^[0-9a-f]{64}$/.test(digest)) return 'not a digest'
    const hash = createHash('sha256')
    try {
      await pipeline(createReadStream(sideLogPath(this.#folder, digest)), hash)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      return (error as Error).message
    }
    return hash.digest('hex')
  }
}
