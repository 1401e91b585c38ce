/**
 * Joins its standard input and output to the sidecar’s socket, for as long as both are open. If no socket of the host
 * can be mounted, the engine starts one relay in the sandbox for each connection of the host.
 */
import { connect, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { INSIDE } from './protocol.ts'

/** A sidecar that has just started needs a moment until it listens. */
const CONNECT_TIMEOUT_MS = 20_000
const PAUSE_MS = 10

// These are sockets, because Node blocks while it writes to a pipe that is its standard output.
const input = new Socket({ fd: 0, readable: true, writable: false })
const output = new Socket({ fd: 1, readable: false, writable: true })
for (const end of [input, output]) end.on('error', () => process.exit(1))
const socket = await reach(INSIDE.listenSocket)
socket.on('error', () => process.exit(1))
// The last bytes of the host are still written. After that, the host takes no response.
input.once('end', () => socket.destroySoon())
input.pipe(socket, { end: false })
socket.pipe(output, { end: false })
// Exits only after the host has taken the last bytes of the sidecar.
socket.once('close', () => output.end(() => process.exit(0)))

async function reach(path: string): Promise<Socket> {
  const endsMs = performance.now() + CONNECT_TIMEOUT_MS
  for (;;) {
    const reached = await tryToReach(path)
    if (reached !== undefined) return reached
    if (performance.now() > endsMs) {
      process.stderr.write('the sidecar is not listening\n', () => process.exit(1))
      await new Promise(() => {})
    }
    await sleep(PAUSE_MS)
  }
}

function tryToReach(path: string): Promise<Socket | undefined> {
  return new Promise((done) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.removeAllListeners('error')
      done(socket)
    })
    socket.once('error', () => done(undefined))
  })
}
