/**
 * Connects only to checked addresses of a host. Craik resolves a name once, and connects only to the addresses that it
 * got.
 */
import { lookup } from 'node:dns/promises'
import { isIP, type Socket } from 'node:net'
import { connect } from 'node:tls'
import { Agent } from 'undici'
import { CraikError } from '../../../errors.ts'
import { nonPublicReason } from '../../../lib/public-address.ts'
import type { HttpsTarget } from './destination.ts'

const LOOKUP_DEADLINE_MS = 10_000
const CONNECT_DEADLINE_MS = 15_000
const MAX_ADDRESSES = 16
/** The time from the end of the upload to the start of the response. Some stores combine parts first. */
const ANSWER_DEADLINE_MS = 5 * 60_000

export interface DialOptions {
  /** Also allows addresses that are not of the public internet. */
  readonly allowPrivate: boolean
  /** Certificates that are trusted instead of the system's. */
  readonly authorities?: readonly string[]
  /** For tests: returns the addresses of a name. */
  readonly resolve?: (host: string) => Promise<readonly string[]>
}

/** Refuses a host if any of its addresses is not allowed. The caller must close the agent. */
export async function createAuthorizedAgent(target: HttpsTarget, options: DialOptions): Promise<Agent> {
  const addresses = isIP(target.host) === 0 ? await resolveHost(target.host, options) : [target.host]
  for (const address of addresses) {
    const problem = nonPublicReason(address)
    if (problem !== undefined && !options.allowPrivate) throw notAllowed(target.host, problem)
  }
  return new Agent({
    allowH2: false,
    headersTimeout: ANSWER_DEADLINE_MS,
    bodyTimeout: ANSWER_DEADLINE_MS,
    pipelining: 0,
    connect(request, done) {
      const host = request.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
      // An agent connects wherever its requests point. This one is for a single target.
      if (
        host !== target.host ||
        Number(request.port || 443) !== target.port ||
        request.protocol !== 'https:'
      ) {
        done(new Error('the connection is to a different host than the one that was checked'), null)
        return
      }
      dial(target, addresses, options.authorities).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, null),
      )
    },
  })
}

async function resolveHost(host: string, { resolve }: DialOptions): Promise<readonly string[]> {
  const found = await Promise.race([
    (resolve ?? systemLookup)(host),
    deadline(LOOKUP_DEADLINE_MS, `looking up ${host} timed out`),
  ]).catch((cause) => {
    throw new CraikError('export_failed', `cannot find the host ${host}`, {
      hint: 'check the name, and that DNS works on this machine',
      cause,
    })
  })
  if (found.length === 0 || found.length > MAX_ADDRESSES)
    throw new CraikError('export_failed', `the host ${host} has no address, or too many`)
  return found
}

async function systemLookup(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true, order: 'verbatim' })).map(({ address }) => address)
}

async function dial(
  target: HttpsTarget,
  addresses: readonly string[],
  authorities: readonly string[] | undefined,
): Promise<Socket> {
  let failure: unknown
  for (const address of addresses) {
    try {
      return await dialOne(target, address, authorities)
    } catch (error) {
      failure = error
    }
  }
  throw failure
}

function dialOne(
  { host, port }: HttpsTarget,
  address: string,
  authorities: readonly string[] | undefined,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port,
      ALPNProtocols: ['http/1.1'],
      // Overrides the environment, such as `NODE_TLS_REJECT_UNAUTHORIZED`.
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(isIP(host) === 0 && { servername: host }),
      ...(authorities && { ca: [...authorities] }),
    })
    const fail = (error: Error) => {
      clearTimeout(timer)
      socket.destroy()
      reject(error)
    }
    const timer = setTimeout(
      () => fail(Object.assign(new Error('the connection timed out'), { code: 'ETIMEDOUT' })),
      CONNECT_DEADLINE_MS,
    )
    socket.once('error', fail)
    socket.once('secureConnect', () => {
      if (socket.remotePort !== port || !isSame(socket.remoteAddress, address)) {
        fail(new Error('the connection reached a different address than the requested one'))
        return
      }
      clearTimeout(timer)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

function isSame(a: string | undefined, b: string): boolean {
  const formatAddress = (address: string) =>
    address.includes(':') ? new URL(`http://[${address}]`).hostname : address
  return a !== undefined && formatAddress(a) === formatAddress(b)
}

async function deadline(ms: number, message: string): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(message)), ms).unref()
  })
}

function notAllowed(host: string, problem: string): CraikError {
  return new CraikError('export_failed', `the host ${host} has an address that is ${problem}`, {
    hint: 'add --allow-private-address if the store is in your own network (nothing was sent)',
    details: { reason: 'private_address' },
  })
}
