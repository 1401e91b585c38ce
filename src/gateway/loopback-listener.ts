/**
 * The gateway on a loopback port of this machine, for programs outside sandboxes. Every local user can reach loopback,
 * and a web page can make a browser send requests there. Therefore each request needs the token of the listener, and
 * must name the port in its Host header.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { CraikError } from '../errors.ts'
import type { GatewayCaller } from './caller.ts'
import { readPresented } from './models/client-credential.ts'
import type { AuthCheck, Gateway } from './server.ts'

const LOOPBACK = '127.0.0.1'
const HOW = 'run:  craik gateway --help'

export interface LoopbackListener {
  readonly port: number
  /** The number of requests without the token, or with another Host. */
  readonly refused: number
  /** Stops accepting connections. The gateway ends those that are open. */
  close(): void
}

/** Port 0 selects a free port. */
export async function openLoopbackListener(
  gateway: Gateway,
  caller: GatewayCaller,
  token: string,
  port: number,
): Promise<LoopbackListener> {
  let refused = 0
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    gateway.handle(socket, caller, (request) => {
      const notLetIn = check(request)
      if (notLetIn !== undefined) refused++
      return notLetIn
    }),
  )
  server.listen({ host: LOOPBACK, port, exclusive: true })
  try {
    await once(server, 'listening')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('unavailable', `cannot listen on ${LOOPBACK}:${port} (${code})`, {
      hint: 'omit --port to use a free port',
      cause,
    })
  }
  // For example, no file descriptors are left for another connection. Open connections continue.
  server.on('error', () => {})
  const { port: taken } = server.address() as AddressInfo
  const check = createTokenCheck(token, taken)
  return {
    port: taken,
    get refused() {
      return refused
    },
    close: () => void server.close(),
  }
}

export function createTokenCheck(token: string, port: number): AuthCheck {
  const isToken = tokenCheck(token)
  const hosts = [`${LOOPBACK}:${port}`, `localhost:${port}`]
  return (request) => {
    if (isForProxy(request)) {
      if (isToken(proxyPassword(request.headers['proxy-authorization']))) return undefined
      return {
        status: 407,
        why: `a proxy client must send the token of this gateway as its password; ${HOW}`,
      }
    }
    // This check stops DNS rebinding: a name that resolves to this address does not match.
    if (!hosts.includes(request.headers.host?.toLowerCase() ?? ''))
      return { status: 403, why: `this gateway accepts requests only for the host ${hosts[0]}` }
    const [, query = ''] = (request.url ?? '').split('?', 2)
    const { values } = readPresented(request.headers, new URLSearchParams(query))
    if (values.length > 0 && values.every(isToken)) return undefined
    return { status: 401, why: `the credential is not the token of this gateway; ${HOW}` }
  }
}

/** In a proxy request, the Host header and the credential are the destination's. */
function isForProxy({ method, url = '' }: IncomingMessage): boolean {
  return method === 'CONNECT' || !url.startsWith('/')
}

/** Accepts `Bearer TOKEN`, or `Basic` with any name and the token as its password. */
function proxyPassword(header: string | undefined): string {
  const [scheme = '', value = ''] = (header ?? '').split(' ')
  if (/^bearer$/i.test(scheme)) return value
  if (!/^basic$/i.test(scheme)) return ''
  const pair = Buffer.from(value, 'base64').toString('latin1')
  return pair.slice(pair.indexOf(':') + 1)
}

/** Compares in constant time for any input. */
function tokenCheck(token: string): (presented: string) => boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = digest(token)
  return (presented) => timingSafeEqual(digest(presented), expected)
}
