/**
 * The host's socket that a sidecar connects to. Only the host creates it, in a folder that the sandbox cannot write.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  unlinkSync,
} from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import { INSIDE } from '../../sidecar/protocol.ts'

export interface HostSocket {
  /** Closes the socket and its connections. */
  close(): Promise<void>
}

export interface HostSocketEvents {
  /** Receives the one connection. The next one follows after this one has closed. */
  onConnection(stream: Socket): void
  /** Receives the number of connections that were refused because one is open: at once, then at most every second. */
  onRefused(connections: number): void
}

const REFUSAL = 'craik: this sandbox is already connected; it can have only one connection at a time\n'
/** The limit of connections that receive the reason for their refusal. Craik closes further ones without a message. */
const MAX_BEING_REFUSED = 15
const REFUSE_MS = 1_000
const REPORT_EVERY_MS = 1_000
/** The longest path of a Unix socket that every system accepts. */
const MAX_PATH_BYTES = 103

/** Listens in the folder, which it creates if it is missing. It replaces a socket that an earlier process left. */
export async function openHostSocket(folder: string, events: HostSocketEvents): Promise<HostSocket> {
  const descriptor = openSocketFolder(folder)
  // The path goes through the open descriptor. It stays valid if the folder is renamed, and the folder's path may have
  // any length.
  const path = join(process.platform === 'linux' ? `/proc/self/fd/${descriptor}` : folder, INSIDE.socketName)
  const server = createServer()
  try {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
      throw new CraikError('unavailable', `the path of the socket is too long for this system: ${path}`, {
        hint: 'set CRAIK_HOME to a folder with a shorter path',
      })
    }
    removeStale(path, folder)
    await startListening(server, path)
    chmodSync(path, 0o666)
  } catch (error) {
    await closeServer(server)
    closeSync(descriptor)
    throw error instanceof CraikError ? error : createSocketError(error)
  }
  const listener = new HostListener(server, events)
  let closing: Promise<void> | undefined
  return {
    close() {
      closing ??= listener.close().finally(() => closeSync(descriptor))
      return closing
    },
  }
}

/** Accepts one connection, and reports to the others that one is open. */
class HostListener {
  readonly #server: Server
  readonly #events: HostSocketEvents
  readonly #refused = new Set<Socket>()
  #current: Socket | undefined
  #unreported = 0
  #reporting: NodeJS.Timeout | undefined

  constructor(server: Server, events: HostSocketEvents) {
    this.#server = server
    this.#events = events
    server.maxConnections = 1 + MAX_BEING_REFUSED
    server.on('connection', (socket) => this.#take(socket))
    server.on('drop', () => this.#report())
    // A failed accept costs one connection, not the listener.
    server.on('error', () => {})
  }

  async close(): Promise<void> {
    clearTimeout(this.#reporting)
    this.#current?.destroy()
    for (const socket of this.#refused) socket.destroy()
    await closeServer(this.#server)
  }

  #take(socket: Socket): void {
    socket.on('error', () => {})
    if (this.#current) {
      this.#refuse(socket)
      return
    }
    this.#current = socket
    socket.once('close', () => {
      this.#current = undefined
    })
    this.#events.onConnection(socket)
  }

  #refuse(socket: Socket): void {
    this.#refused.add(socket)
    const timer = setTimeout(() => socket.destroy(), REFUSE_MS)
    socket.once('close', () => {
      clearTimeout(timer)
      this.#refused.delete(socket)
    })
    socket.end(REFUSAL, () => socket.destroySoon())
    this.#report()
  }

  #report(): void {
    this.#unreported++
    if (this.#reporting) return
    this.#events.onRefused(this.#unreported)
    this.#unreported = 0
    this.#reporting = setTimeout(() => {
      this.#reporting = undefined
      if (this.#unreported === 0) return
      this.#unreported--
      this.#report()
    }, REPORT_EVERY_MS)
    this.#reporting.unref()
  }
}

/**
 * Opens the folder of the socket. Its parent is private. The folder itself is readable, because it is the only one that
 * the sandbox sees, and the sandbox cannot write it.
 */
function openSocketFolder(folder: string): number {
  ensurePrivateFolder(dirname(folder), 'sandbox folder')
  try {
    mkdirSync(folder, { mode: 0o755 })
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw createSocketError(error)
  }
  let descriptor: number
  try {
    descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  } catch (error) {
    throw createSocketError(error)
  }
  const stats = fstatSync(descriptor)
  const isOwn = stats.uid === process.geteuid?.() && (stats.mode & 0o022) === 0
  if (isOwn) {
    // The umask may have removed permissions that the sandbox needs.
    fchmodSync(descriptor, 0o755)
    return descriptor
  }
  closeSync(descriptor)
  throw new CraikError('key_exposed', `other users can write to the sandbox’s folder ${folder}`, {
    hint: `take the permission away:  chmod go-w ${quoteArgument(folder)}`,
  })
}

function removeStale(path: string, folder: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (!stats) return
  if (!stats.isSocket() || stats.uid !== process.geteuid?.()) {
    // The socket's folder is in the folder of its sandbox, which has the sandbox's id as its name.
    const sandbox = basename(dirname(folder))
    throw new CraikError(
      'key_exposed',
      `the socket of sandbox ${sandbox} was replaced by a file that Craik did not create`,
      {
        hint: `find out who can write to ${folder}; then delete the sandbox:  craik sandbox delete ${sandbox}`,
      },
    )
  }
  unlinkSync(path)
}

function startListening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, backlog: 16 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    if (server.listening) server.close(() => resolve())
    else resolve()
  })
}

function createSocketError(error: unknown): CraikError {
  return new CraikError('home_unwritable', `cannot create the socket of the sandbox (${codeOf(error)})`, {
    cause: error,
  })
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error'
}
