/**
 * Records a command that runs unattended, in `headless-runs/<run-id>/` in the inbox. It writes output as it arrives,
 * with secrets masked. It writes `exit_code` last, so a run without this file was killed.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { createPrivateFile, writePrivateFile } from '../../lib/private-files.ts'
import type { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { joinCommand, quoteArgument } from '../../lib/shlex.ts'
import { createRedactStream, redactText, redactValue } from '../../receipts/redaction/redact.ts'
import { enterOwn, openInbox, toExportError } from '../../transcripts/export/own-folder.ts'

export interface HeadlessRunOptions {
  readonly inbox: string
  readonly login: string
  /** An id or a name. */
  readonly sandbox: string
  readonly argv: readonly string[]
  readonly startedAtMs: number
  /** The limit for each of the two logs. Craik drops the output after it, and the log says so. */
  readonly maxLogBytes?: number
}

const FOLDER = 'headless-runs'
const MAX_LOG_BYTES = 256 * 1024 * 1024
const TRIES = 5

export class HeadlessRun {
  /** The start time and a random suffix, so that ids are unique and sort by time. */
  readonly id: string
  readonly path: string
  readonly #options: HeadlessRunOptions
  readonly #folder: OpenFolder
  readonly #logs: { readonly stdout: RunLog; readonly stderr: RunLog }
  #isClosed = false

  private constructor(
    id: string,
    path: string,
    options: HeadlessRunOptions,
    folder: OpenFolder,
    logs: { readonly stdout: RunLog; readonly stderr: RunLog },
  ) {
    this.id = id
    this.path = path
    this.#options = options
    this.#folder = folder
    this.#logs = logs
  }

  static async begin(options: HeadlessRunOptions): Promise<HeadlessRun> {
    const { folder, id, path } = await makeFolder(options)
    const opened: RunLog[] = []
    try {
      const { value } = redactValue(options.argv)
      createPrivateFile(folder.at('command.txt'), `${redactText(joinCommand(value)).text}\n`)
      for (const name of ['stdout.log', 'stderr.log'])
        opened.push(await RunLog.open(folder.at(name), options.maxLogBytes ?? MAX_LOG_BYTES))
      const [stdout, stderr] = opened as [RunLog, RunLog]
      const run = new HeadlessRun(id, path, options, folder, { stdout, stderr })
      run.#writeMeta({})
      return run
    } catch (error) {
      for (const log of opened) await log.close()
      await folder.close()
      throw toExportError(error, path)
    }
  }

  /** The caller must wait for this before it writes the next piece of the same log. */
  stdout(chunk: Uint8Array): Promise<void> {
    return this.#write(this.#logs.stdout, chunk)
  }

  stderr(chunk: Uint8Array): Promise<void> {
    return this.#write(this.#logs.stderr, chunk)
  }

  /** Records that the command exited by itself. When this resolves, everything is on the disk. */
  async finish(exitCode: number, endedAtMs: number): Promise<void> {
    const { stdout, stderr } = this.#logs
    try {
      await stdout.end()
      await stderr.end()
      this.#writeMeta({
        ENDED: instant(endedAtMs),
        DURATION_MS: String(Math.max(0, Math.round(endedAtMs - this.#options.startedAtMs))),
        ...(stdout.isCut && { STDOUT_CUT: '1' }),
        ...(stderr.isCut && { STDERR_CUT: '1' }),
      })
      writePrivateFile(this.#folder.at('exit_code'), `${exitCode}\n`, 'exit code')
    } catch (error) {
      throw toExportError(error, this.path)
    } finally {
      await this.close()
    }
  }

  /** A run that is closed without `finish` counts as killed. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#logs.stdout.close()
    await this.#logs.stderr.close()
    await this.#folder.close()
  }

  async #write(log: RunLog, chunk: Uint8Array): Promise<void> {
    try {
      await log.write(chunk)
    } catch (error) {
      throw toExportError(error, this.path)
    }
  }

  #writeMeta(more: Readonly<Record<string, string>>): void {
    const { login, sandbox, startedAtMs } = this.#options
    const meta = { RUN_ID: this.id, LOGIN: login, SANDBOX: sandbox, STARTED: instant(startedAtMs), ...more }
    const lines = Object.entries(meta).map(([name, value]) => `${name}=${quoteArgument(value)}\n`)
    writePrivateFile(this.#folder.at('meta.env'), lines.join(''), 'description of a run')
  }
}

async function makeFolder({
  inbox,
  startedAtMs,
}: HeadlessRunOptions): Promise<{ readonly folder: OpenFolder; readonly id: string; readonly path: string }> {
  const outer = await openInbox(inbox)
  const shown = `${resolve(inbox)}/${FOLDER}`
  try {
    const runs = await enterOwn(outer, FOLDER, shown)
    try {
      for (let left = TRIES; ; left--) {
        const id = `${instant(startedAtMs).replace(/[:.]/g, '-')}-${randomBytes(5).toString('hex')}`
        try {
          await mkdir(runs.at(id), 0o700)
          return { folder: await runs.enter(id), id, path: `${shown}/${id}` }
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || left <= 1)
            throw toExportError(error, shown)
        }
      }
    } finally {
      await runs.close()
    }
  } finally {
    await outer.close()
  }
}

function instant(atMs: number): string {
  return new Date(atMs).toISOString()
}

/** Buffers no more than the redaction does: one line. */
class RunLog {
  readonly #file: FileHandle
  readonly #maxBytes: number
  readonly #decoder = new StringDecoder('utf8')
  readonly #redact = createRedactStream()
  #bytes = 0
  #isClosed = false
  isCut = false

  private constructor(file: FileHandle, maxBytes: number) {
    this.#file = file
    this.#maxBytes = maxBytes
  }

  static async open(path: string, maxBytes: number): Promise<RunLog> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    return new RunLog(await open(path, flags, 0o600), maxBytes)
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (!this.isCut) await this.#put(this.#redact.write(this.#decoder.write(Buffer.from(chunk))))
  }

  async end(): Promise<void> {
    if (!this.isCut) await this.#put(this.#redact.write(this.#decoder.end()))
    if (!this.isCut) await this.#put(this.#redact.end())
    await this.#file.sync()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#file.close()
  }

  async #put(text: string): Promise<void> {
    const bytes = Buffer.from(text)
    const available = this.#maxBytes - this.#bytes
    this.#bytes += Math.min(bytes.length, available)
    await this.#file.appendFile(bytes.subarray(0, available))
    if (bytes.length <= available) return
    this.isCut = true
    await this.#file.appendFile(
      `\n… truncated: a log has at most ${this.#maxBytes.toLocaleString('en')} bytes\n`,
    )
  }
}
