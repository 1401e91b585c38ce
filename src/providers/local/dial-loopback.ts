/** Opens connections to this host only: it resolves no name, and verifies the remote address of every socket. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Agent } from 'undici'
import { type LoopbackUrl, parseLoopbackUrl } from './loopback.ts'

/**
 * Returns an undici dispatcher for one loopback base URL. It dials only the addresses and the port of that URL, follows
 * no redirect and uses no proxy. Throws `usage` when the URL is not loopback. The caller closes or destroys it.
 */
export function loopbackAgent(
  baseUrl: string,
  { connectTimeoutMs }: { readonly connectTimeoutMs: number },
): Agent {
  const url = parseLoopbackUrl(baseUrl)
  return new Agent({
    allowH2: false,
    connect(target, done) {
      const host = target.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
      const port = Number(target.port || (target.protocol === 'https:' ? 443 : 80))
      // An undici agent dials the address of each request, but this one may serve only its own URL.
      if (host !== url.host || port !== url.port || target.protocol !== url.protocol) {
        done(dialError('EACCES', 'the connection is for a different address than the checked one'), null)
        return
      }
      dial(url, connectTimeoutMs).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, null),
      )
    },
  })
}

/** Opens one connection to a loopback base URL, by the same rules. */
export function dialLoopback(
  baseUrl: string,
  { connectTimeoutMs }: { readonly connectTimeoutMs: number },
): Promise<Socket> {
  return dial(parseLoopbackUrl(baseUrl), connectTimeoutMs)
}

async function dial(url: LoopbackUrl, connectTimeoutMs: number): Promise<Socket> {
  const deadline = AbortSignal.timeout(connectTimeoutMs)
  let failure: Error = dialError('ECONNREFUSED', 'no address to connect to')
  for (const address of url.addresses) {
    try {
      return await dialOne(url, address, deadline)
    } catch (error) {
      if (deadline.aborted) throw dialError('ETIMEDOUT', `no connection within ${connectTimeoutMs} ms`)
      failure = error as Error
    }
  }
  throw failure
}

function dialOne(url: LoopbackUrl, address: string, deadline: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:'
    const place = { host: address, port: url.port }
    const socket: Socket = secure
      ? connectTls({
          ...place,
          ALPNProtocols: ['http/1.1'],
          // Independent of the environment, such as NODE_TLS_REJECT_UNAUTHORIZED.
          rejectUnauthorized: true,
          // The certificate must be valid for the host name of the URL, or else for the address.
          ...(url.host === 'localhost' && { servername: 'localhost' }),
        })
      : connectTcp(place)
    const fail = (error: Error) => {
      deadline.removeEventListener('abort', expire)
      socket.destroy()
      reject(error)
    }
    const expire = () => fail(dialError('ETIMEDOUT', 'no connection in time'))
    deadline.addEventListener('abort', expire, { once: true })
    socket.once('error', fail)
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      if (socket.remoteAddress !== address || socket.remotePort !== url.port) {
        fail(dialError('EACCES', 'the connection reached a different address than requested'))
        return
      }
      deadline.removeEventListener('abort', expire)
      socket.off('error', fail)
      socket.setNoDelay(true)
      resolve(socket)
    })
  })
}

function dialError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
