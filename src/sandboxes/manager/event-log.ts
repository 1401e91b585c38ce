/** The events of a sandbox: the newest in memory and in a file, both bounded. */
import { constants } from 'node:fs'
import { open, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readPrivateFile } from '../../lib/private-files.ts'
import type { SandboxEvent } from '../manager-types.ts'

/** The number of events in memory, which is also the number that is shown. */
const KEPT = 1000
const FILE_BYTES = 512 * 1024
/** A file can exceed its limit once, by the events that were not yet written. */
const MAX_READ_BYTES = 4 * 1024 * 1024
/** Opens no link, and does not wait for the reader of a FIFO. */
const APPEND =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
const MESSAGE_CHARACTERS = 500
/** The sandbox can cause these events at any rate. Without a limit they would push out all others. */
const CAUSED_INSIDE: ReadonlySet<string> = new Set([
  'connected',
  'disconnected',
  'refused',
  'sidecar_changed',
])
const CAUSED_PER_MINUTE = 30

export class EventLog {
  readonly #path: string
  readonly #nowMs: () => number
  readonly #events: SandboxEvent[] = []
  readonly #followers = new Set<() => void>()
  /** The number of events that were dropped from the front, from which followers count. */
  #dropped = 0
  #unwritten: string[] = []
  #writing: Promise<void> = Promise.resolve()
  #closed = false
  #minute = 0
  readonly #caused = new Map<string, number>()

  private constructor(folder: string, nowMs: () => number) {
    this.#path = join(folder, 'events.jsonl')
    this.#nowMs = nowMs
  }

  /** `folder` is the sandbox's folder on the host, which the sandbox cannot write. */
  static async open(folder: string, nowMs: () => number): Promise<EventLog> {
    const log = new EventLog(folder, nowMs)
    for (const name of [`${log.#path}.1`, log.#path]) {
      for (const line of textOf(name).split('\n')) {
        const event = parseEvent(line)
        if (event !== undefined) log.#keep(event)
      }
    }
    return log
  }

  /** `rare`: the caller limits the rate, so the log adds every such event. */
  add(
    type: string,
    facts: { readonly job?: string; readonly message?: string } = {},
    how: 'any' | 'rare' = 'any',
  ): void {
    if (how === 'any' && this.#isTooMuch(type)) return
    const event: SandboxEvent = {
      atMs: this.#nowMs(),
      type,
      ...(facts.job !== undefined && { job: facts.job }),
      ...(facts.message !== undefined && { message: facts.message.slice(0, MESSAGE_CHARACTERS) }),
    }
    this.#keep(event)
    // Events can come faster than the disk writes, so the unwritten ones are bounded too.
    if (this.#unwritten.length < KEPT) this.#unwritten.push(`${JSON.stringify(event)}\n`)
    if (this.#unwritten.length === 1) this.#writing = this.#writing.then(() => this.#write())
    for (const wake of this.#followers) wake()
  }

  async *read(follow: boolean, until: AbortSignal): AsyncGenerator<SandboxEvent> {
    let next = this.#dropped
    while (!until.aborted) {
      next = Math.max(next, this.#dropped)
      const event = this.#events[next - this.#dropped]
      if (event !== undefined) {
        next++
        yield event
      } else if (!follow || this.#closed) return
      else await this.#more(until)
    }
  }

  /** Ends the followers and waits until all events are on disk. */
  async close(): Promise<void> {
    this.#closed = true
    for (const wake of this.#followers) wake()
    await this.#writing
  }

  #isTooMuch(type: string): boolean {
    if (!CAUSED_INSIDE.has(type)) return false
    const minute = Math.floor(this.#nowMs() / 60_000)
    if (minute !== this.#minute) this.#caused.clear()
    this.#minute = minute
    const count = (this.#caused.get(type) ?? 0) + 1
    this.#caused.set(type, count)
    return count > CAUSED_PER_MINUTE
  }

  #keep(event: SandboxEvent): void {
    this.#events.push(event)
    if (this.#events.length <= KEPT) return
    this.#events.shift()
    this.#dropped++
  }

  #more(until: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#followers.delete(wake)
        until.removeEventListener('abort', wake)
        resolve()
      }
      this.#followers.add(wake)
      until.addEventListener('abort', wake)
    })
  }

  /** An event that cannot be written (the disk is full, the folder is gone) stays visible in this process. */
  async #write(): Promise<void> {
    const lines = this.#unwritten.join('')
    this.#unwritten = []
    try {
      const size = await stat(this.#path).then(
        ({ size }) => size,
        () => 0,
      )
      if (size > FILE_BYTES) await rename(this.#path, `${this.#path}.1`)
      const file = await open(this.#path, APPEND, 0o600)
      try {
        await file.writeFile(lines)
      } finally {
        await file.close()
      }
    } catch {}
  }
}

function textOf(path: string): string {
  try {
    return readPrivateFile(path, MAX_READ_BYTES).toString()
  } catch {
    return ''
  }
}

/** A crash may have truncated the last line. */
function parseEvent(line: string): SandboxEvent | undefined {
  try {
    const event = JSON.parse(line)
    return typeof event?.atMs === 'number' && typeof event.type === 'string' ? event : undefined
  } catch {
    return undefined
  }
}
