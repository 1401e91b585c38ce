/** One output stream of a command: redacted, previewed, hashed, and stored in a private file named by its hash. */
import { createHash, type Hash, randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { createRedactStream } from '../receipts/redaction/redact.ts'

export const PREVIEW_CHARACTERS = 4096
/** A side log is cut at this size, and its receipt says so. */
const MAX_SIDE_LOG_BYTES = 256 * 1024 * 1024

export interface SideLogSummary {
  readonly preview: string
  readonly bytes: number
  readonly sha256: string
  readonly complete: boolean
  readonly labels: readonly string[]
}

export class SideLog implements Disposable {
  readonly #folder: string
  readonly #temporary: string
  readonly #file: number
  readonly #hash: Hash = createHash('sha256')
  readonly #decoder = new StringDecoder('utf8')
  readonly #redact = createRedactStream()
  #preview = ''
  #bytes = 0
  #complete = true
  #closed = false

  constructor(folder: string) {
    this.#folder = folder
    this.#temporary = join(folder, `.${process.pid}.${randomBytes(8).toString('hex')}.part`)
    this.#file = openSync(this.#temporary, 'wx', 0o600)
  }

  /** Returns the redacted text that can be printed. */
  write(chunk: Buffer): string {
    return this.#keep(this.#redact.write(this.#decoder.write(chunk)))
  }

  /** Returns the last redacted text and the summary. The file then has its final name. */
  finish(): { readonly rest: string; readonly summary: SideLogSummary } {
    const rest = this.#keep(this.#redact.write(this.#decoder.end())) + this.#keep(this.#redact.end())
    const sha256 = this.#hash.digest('hex')
    // The receipt that names the file survives a power loss. The file must survive it too, or an empty file would look
    // like tampering.
    fsyncSync(this.#file)
    closeSync(this.#file)
    this.#closed = true
    // The same output results in the same file.
    renameSync(this.#temporary, sideLogPath(this.#folder, sha256))
    const summary = {
      preview: this.#preview.toWellFormed(),
      bytes: this.#bytes,
      sha256,
      complete: this.#complete,
      labels: this.#redact.labels(),
    }
    return { rest, summary }
  }

  [Symbol.dispose](): void {
    if (this.#closed) return
    this.#closed = true
    closeSync(this.#file)
    rmSync(this.#temporary, { force: true })
  }

  #keep(text: string): string {
    if (text === '') return ''
    if (this.#preview.length < PREVIEW_CHARACTERS) {
      this.#preview += text.slice(0, PREVIEW_CHARACTERS - this.#preview.length)
    }
    const bytes = Buffer.from(text)
    if (this.#bytes + bytes.length > MAX_SIDE_LOG_BYTES) this.#complete = false
    if (this.#complete) this.#store(bytes)
    return text
  }

  /** A full disk cuts the log like its size limit does. The command continues. */
  #store(bytes: Buffer): void {
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
      ftruncateSync(this.#file, this.#bytes)
      this.#complete = false
      return
    }
    this.#hash.update(bytes)
    this.#bytes += bytes.length
  }
}

/**
 * Returns the path of a side log. The digest comes from a receipt that can be forged, so only 64 hex digits become a
 * part of the path.
 */
export function sideLogPath(folder: string, sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new TypeError('the name of a side log must be a SHA-256 in hex')
  return join(folder, `${sha256}.log`)
}

/** Removes unfinished files of commands whose processes are dead. */
export function sweepUnfinished(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = /^\.(\d+)\.[0-9a-f]{16}\.part$/.exec(name)?.[1]
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(folder, name), { force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
