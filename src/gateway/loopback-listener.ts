/**
 * The gateway on a port of this machine's loopback, for programs outside sandboxes. Loopback is every local user's, and a
 * web page can make a browser ask there: so each request needs the token of the run, and names the port as its host.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { CraikError } from '../errors.ts'
import type { GatewayCaller } from './caller.ts'
import { presentedIn } from './models/presented.ts'
import type { AuthCheck, Gateway } from './server.ts'

const LOOPBACK = '127.0.0.1'
const HOW = 'run:  craik gateway --help'

export interface LoopbackListener {
  readonly port: number
  /** How many requests came without the token, or under another name. */
  readonly refused: number
  /** Nobody new comes in; those who are in are the gateway's to end. */
  close(): void
}

/** Port 0: a free one. */
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
  // Such as no descriptors left for one more connection: those who are in are served on.
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
    // A name that somebody else's DNS turned into this address stays that name here.
    if (!hosts.includes(request.headers.host?.toLowerCase() ?? ''))
      return { status: 403, why: `this gateway accepts requests only for the host ${hosts[0]}` }
    const [, query = ''] = (request.url ?? '').split('?', 2)
    const { values } = presentedIn(request.headers, new URLSearchParams(query))
    if (values.length > 0 && values.every(isToken)) return undefined
    return { status: 401, why: `the credential is not the token of this gateway; ${HOW}` }
  }
}

/** In its form the host and a credential are the destination's. */
function isForProxy({ method, url = '' }: IncomingMessage): boolean {
  return method === 'CONNECT' || !url.startsWith('/')
}

/** `Bearer TOKEN`, or `Basic` of any name with the token as its password. */
function proxyPassword(header: string | undefined): string {
  const [scheme = '', value = ''] = (header ?? '').split(' ')
  if (/^bearer$/i.test(scheme)) return value
  if (!/^basic$/i.test(scheme)) return ''
  const pair = Buffer.from(value, 'base64').toString('latin1')
  return pair.slice(pair.indexOf(':') + 1)
}

/** In constant time, whatever was sent. */
function tokenCheck(token: string): (presented: string) => boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = digest(token)
  return (presented) => timingSafeEqual(digest(presented), expected)
}
