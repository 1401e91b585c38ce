/** Unix sockets at paths of any length. The kernel accepts 107 bytes, and the path of a Craik home may be longer. */
import { closeSync, constants, openSync } from 'node:fs'
import { connect, type Server, type Socket } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { CraikError } from '../errors.ts'

/** `sun_path` has 108 bytes (104 on macOS), and one of them is for the final NUL. */
const MAX_PATH_BYTES = process.platform === 'linux' ? 107 : 103

/** Connects. The `connect` and `error` events of the socket report the result. */
export function connectUnixSocket(path: string): Socket {
  const short = shortPath(path)
  const socket = connect({ path: short.path, allowHalfOpen: true })
  const release = once(() => short[Symbol.dispose]())
  socket.once('connect', release).once('error', release).once('close', release)
  return socket
}

/** Returns whether a server accepts connections at this path. */
export async function isListening(path: string): Promise<boolean> {
  const socket = connectUnixSocket(path)
  try {
    return await new Promise<boolean>((done) => {
      socket.once('connect', () => done(true)).once('error', () => done(false))
    })
  } finally {
    socket.destroy()
  }
}

/**
 * Listens with the given mode from the beginning. The caller owns the name: it is free, or the caller has removed a
 * stale socket. Closing the server removes the name again.
 */
export async function listenUnixSocket(server: Server, path: string, mode: number): Promise<Disposable> {
  const short = shortPath(path)
  const umask = process.umask(~mode & 0o777)
  try {
    const listening = new Promise<void>((done, fail) => {
      server.once('error', fail)
      server.listen(short.path, () => {
        server.off('error', fail)
        done()
      })
    })
    // `listen` creates the name at once, so the umask can be restored before the server is ready.
    process.umask(umask)
    await listening
  } catch (error) {
    process.umask(umask)
    short[Symbol.dispose]()
    throw error
  }
  return short
}

interface ShortPath extends Disposable {
  readonly path: string
}

/** Returns a path through the descriptor of the folder, which must stay open for as long as the path is used. */
function shortPath(path: string): ShortPath {
  if (Buffer.byteLength(path) <= MAX_PATH_BYTES) return { path, [Symbol.dispose]: () => {} }
  if (process.platform !== 'linux')
    throw new CraikError('unavailable', `the path of the socket is too long for this system: ${path}`, {
      hint: 'set CRAIK_HOME to a folder with a shorter path',
    })
  const folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  return {
    path: join(`/proc/self/fd/${folder}`, basename(path)),
    [Symbol.dispose]: once(() => closeSync(folder)),
  }
}

function once(work: () => void): () => void {
  let done = false
  return () => {
    if (done) return
    done = true
    work()
  }
}
