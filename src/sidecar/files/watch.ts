/**
 * Records what happens in a folder as numbered events, and keeps the newest ones. One watch serves all readers of the
 * same path, and continues for a reader that returns. It watches each folder separately, because Node's recursive watch
 * would hold a handle for every file.
 */
import { type FSWatcher, lstatSync, type Stats, statSync, watch } from 'node:fs'
import { opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS, type WatchEvent } from '../protocol.ts'
import { SidecarError } from '../router.ts'

/** Each watched folder uses a little memory of the kernel, which counts them by user. */
const MAX_FOLDERS = 8192
/** The size limit of the stored events, because paths can be long. */
const MAX_EVENT_BYTES = 2 * 1024 * 1024

export class Watch {
  readonly #root: string
  readonly #recursive: boolean
  readonly #nextSeq: () => number
  readonly #watchers = new Map<string, FSWatcher>()
  readonly #wake = new Set<() => void>()
  readonly #events: WatchEvent[] = []
  #keptBytes = 0
  /** Everything up to this event is gone, or was never seen. */
  #dropped: number
  #last: number
  /** The newest event that any reader has received. */
  #reported: number
  #rootIdentity = ''
  readonly #whenEnded = Promise.withResolvers<void>()
  #ended = false

  private constructor(root: string, recursive: boolean, nextSeq: () => number) {
    this.#root = root
    this.#recursive = recursive
    this.#nextSeq = nextSeq
    this.#dropped = nextSeq()
    this.#last = this.#dropped
    this.#reported = this.#dropped
  }

  /** Resolves when everything below the root is watched. */
  static async begin(root: string, recursive: boolean, nextSeq: () => number): Promise<Watch> {
    const self = new Watch(root, recursive, nextSeq)
    try {
      const found = await stat(root)
      self.#rootIdentity = identityOf(found)
      if (found.isDirectory()) await self.#include(root, false)
      else self.#listen(root, () => root)
    } catch (error) {
      self.close()
      throw error
    }
    return self
  }

  /** Settles when the watched path is gone, or the watch was closed. */
  get whenEnded(): Promise<void> {
    return this.#whenEnded.promise
  }

  /**
   * Yields the events after `after`, and waits for more until the watch or the signal ends. A reader without a position
   * first gets a gap with its start position. A reader that missed events gets a gap in their place.
   */
  async *read(after: number | undefined, until: AbortSignal): AsyncGenerator<readonly WatchEvent[]> {
    // A number that has not been reached yet is from another run.
    let seen = after === undefined ? this.#last : after > this.#last ? this.#dropped : after
    if (seen !== after) yield [this.#gapAt(seen)]
    while (!until.aborted) {
      if (seen < this.#dropped) {
        seen = this.#dropped
        yield [this.#gapAt(seen)]
        continue
      }
      const batch = this.#after(seen)
      if (batch.length > 0) {
        seen = batch.at(-1)!.seq
        this.#reported = Math.max(this.#reported, seen)
        yield batch
      } else if (this.#ended) return
      else await this.#more(until)
    }
  }

  close(): void {
    this.#ended = true
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
    this.#whenEnded.resolve()
    for (const wake of this.#wake) wake()
  }

  /**
   * Watches a folder and, if the watch is recursive, those in it. The content of a folder that appeared later is
   * reported as new.
   */
  async #include(folder: string, tell: boolean): Promise<void> {
    this.#listen(folder, (name) => join(folder, name))
    if (!this.#recursive && !tell) return
    const below: string[] = []
    for await (const entry of await opendir(folder)) {
      const path = join(folder, entry.name)
      if (tell) this.#add('created', path)
      if (entry.isDirectory()) below.push(path)
    }
    if (!this.#recursive) return
    for (const path of below)
      await this.#include(path, tell).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT' && error.code !== 'EACCES') throw error
      })
  }

  #listen(path: string, pathOf: (name: string) => string): void {
    if (this.#ended || this.#watchers.has(path)) return
    if (this.#watchers.size >= MAX_FOLDERS)
      throw new SidecarError('busy', `${this.#root}: has more than ${MAX_FOLDERS} folders below it`)
    const watcher = watch(path, { persistent: false }, (event, name) => {
      if (this.#ended) return
      // A removed folder reports its own removal, under its own name. Its parent folder reports it, too.
      if (event === 'rename' && path !== this.#root && statPath(path) === undefined) this.#exclude(path)
      else if (event === 'rename') this.#onRename(name === null ? path : pathOf(name))
      else this.#add('changed', name === null ? path : pathOf(name))
    })
    watcher.on('error', () => this.#exclude(path))
    this.#watchers.set(path, watcher)
  }

  /** The path was created, moved or removed. Only a check shows which. */
  #onRename(path: string): void {
    if (!this.#rootExists()) {
      this.#add('removed', this.#root)
      this.close()
      return
    }
    const found = statPath(path)
    this.#exclude(path)
    this.#add(found === undefined ? 'removed' : 'created', path)
    if (found?.isDirectory() !== true || !this.#recursive) return
    // A folder that cannot be watched is reported as a gap.
    this.#include(path, true).catch(() => {
      if (statPath(path) !== undefined) this.#add('gap', path)
    })
  }

  /** The watcher of the root does not see another folder of the same name. */
  #rootExists(): boolean {
    try {
      return identityOf(statSync(this.#root)) === this.#rootIdentity
    } catch {
      return false
    }
  }

  #exclude(path: string): void {
    for (const [watched, watcher] of this.#watchers) {
      if (watched !== path && !watched.startsWith(`${path}/`)) continue
      watcher.close()
      this.#watchers.delete(watched)
    }
  }

  #add(seenType: WatchEvent['type'], seenPath: string): void {
    if (this.#ended) return
    // A path that is too long for the boundary is reported as a gap.
    const nameable = Buffer.byteLength(seenPath) <= LIMITS.pathBytes
    const [type, path] = nameable ? [seenType, seenPath] : (['gap', this.#root] as const)
    const newest = this.#events.at(-1)
    // Until a reader has received this event, one is enough.
    if (newest?.path === path && newest.type === type && newest.seq > this.#reported) return
    this.#last = this.#nextSeq()
    this.#events.push({ seq: this.#last, type, path })
    this.#keptBytes += path.length
    while (this.#events.length > LIMITS.watchEvents || this.#keptBytes > MAX_EVENT_BYTES) {
      const oldest = this.#events.shift()!
      this.#keptBytes -= oldest.path.length
      this.#dropped = oldest.seq
    }
    for (const wake of this.#wake) wake()
  }

  #gapAt(seq: number): WatchEvent {
    return { seq, type: 'gap', path: this.#root }
  }

  #after(seq: number): WatchEvent[] {
    let at = this.#events.length
    while (at > 0 && this.#events[at - 1]!.seq > seq) at--
    return this.#events.slice(at, at + 256)
  }

  #more(until: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const wake = () => {
      this.#wake.delete(wake)
      until.removeEventListener('abort', wake)
      resolve()
    }
    this.#wake.add(wake)
    until.addEventListener('abort', wake, { once: true })
    if (until.aborted || this.#ended) wake()
    return promise
  }
}

function statPath(path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch {
    return undefined
  }
}

function identityOf(found: Stats): string {
  return `${found.dev}:${found.ino}`
}
