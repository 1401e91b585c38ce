/** Connects streams to loopback ports in the sandbox. */
import { connect, type Socket } from 'node:net'
import { type RouteCall, SidecarError } from '../router.ts'
import { joinSocket } from './join-sockets.ts'
import type { PortConnections } from './port-connections.ts'

/** IPv4 comes first, because most servers listen there. */
const LOOPBACK = ['127.0.0.1', '::1'] as const
const CONNECT_MS = 10_000

export async function connectPort(call: RouteCall, connections: PortConnections): Promise<void> {
  const port = portOf(call.params.port ?? '')
  const release = connections.enter()
  try {
    const socket = await dial(port, call.signal)
    if (call.respond(200)) {
      joinSocket(socket, call.stream, release)
      return
    }
    socket.destroy()
  } catch (error) {
    release()
    throw error
  }
  release()
}

function portOf(text: string): number {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0
  if (port >= 1 && port <= 65535) return port
  throw new SidecarError('usage', 'the port must be a number from 1 to 65535')
}

async function dial(port: number, until: AbortSignal): Promise<Socket> {
  const reasons: string[] = []
  for (const host of LOOPBACK) {
    try {
      return await dialOne(host, port, AbortSignal.any([until, AbortSignal.timeout(CONNECT_MS)]))
    } catch (error) {
      reasons.push((error as NodeJS.ErrnoException).code ?? 'no answer')
    }
    if (until.aborted) break
  }
  throw new SidecarError(
    'refused',
    `nothing in the sandbox answers on port ${port} (${[...new Set(reasons)].join(', ')})`,
  )
}

function dialOne(host: string, port: number, until: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true })
    const give = () => socket.destroy(new Error('no answer in time'))
    until.addEventListener('abort', give, { once: true })
    if (until.aborted) give()
    socket.once('error', (error) => {
      until.removeEventListener('abort', give)
      reject(error)
    })
    socket.once('connect', () => {
      until.removeEventListener('abort', give)
      socket.removeAllListeners('error')
      socket.pause()
      resolve(socket)
    })
  })
}
