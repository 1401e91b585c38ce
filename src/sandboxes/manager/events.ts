/** What happened to a sandbox: the newest in memory, and beside it on disk, both bounded. */
import { constants } from 'node:fs'
import { open, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readPrivateFile } from '../../lib/private-files.ts'
import type { SandboxEvent } from '../manager-types.ts'

/** Kept in memory, and shown. */
const KEPT = 1000
const FILE_BYTES = 512 * 1024
/** A file may go beyond its size by what was unwritten, once. */
const MAX_READ_BYTES = 4 * 1024 * 1024
/** Never through a link, and without waiting for whoever reads a pipe. */
const APPEND =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
const MESSAGE_CHARACTERS = 500
/** What the inside can cause as often as it likes would push everything else out. */
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
  /** How many were dropped from the front; what a follower counts from. */
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

  /** `folder` is the sandbox's own on the host, which nothing inside can write. */
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

  /** `rare`: whoever tells of it sees to that, so that none is left out. */
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
    // Slower than they come: what was not written yet is bounded, like what is kept.
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

  /** Followers end; what was said is on disk. */
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

  /** An event that cannot be written (the disk is full, the folder is gone) is still shown by this process. */
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

/** A crash may have cut the last line. */
function parseEvent(line: string): SandboxEvent | undefined {
  try {
    const event = JSON.parse(line)
    return typeof event?.atMs === 'number' && typeof event.type === 'string' ? event : undefined
  } catch {
    return undefined
  }
}
