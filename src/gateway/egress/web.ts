/** Connects to a host: looks it up once, checks every address, and dials only checked addresses. */
import { lookup } from 'node:dns/promises'
import { connect, type Socket } from 'node:net'
import { nonPublicReason } from '../../lib/public-address.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import type { Destination } from './egress-destination.ts'
import type { EgressLimits } from './egress-limits.ts'

const MAX_ADDRESSES = 32
/** More attempts would take longer than a client waits. */
const MAX_DIALLED = 4
/** A lookup occupies a thread of libuv's pool, which file reads share, for as long as the name server takes. */
const LOOKUPS_AT_ONCE = 2

/** The network outside Craik. */
export interface Web {
  resolve(host: string, until: AbortSignal): Promise<readonly string[]>
  dial(address: string, port: number, until: AbortSignal): Promise<Socket>
  /** Returns why an address is forbidden. `undefined` when it is allowed. */
  notPublic(address: string): string | undefined
}

export type ConnectResult =
  | { readonly outcome: 'connected'; readonly socket: Socket; readonly address: string }
  | { readonly outcome: 'not_public'; readonly addresses: readonly string[] }
  | { readonly outcome: 'failed'; readonly status: 502 | 504; readonly reason: string }

export async function connectUpstream(
  web: Web,
  { host, form, port }: Destination,
  limits: Pick<EgressLimits, 'lookupMs' | 'connectMs'>,
  until: AbortSignal,
): Promise<ConnectResult> {
  const addresses = form === 'name' ? await lookUp(web, host, limits.lookupMs, until) : [host]
  if (!Array.isArray(addresses)) return addresses as ConnectResult
  // A forbidden address among allowed ones suggests an attack, so all are refused.
  if (addresses.some((address) => web.notPublic(address) !== undefined))
    return { outcome: 'not_public', addresses }
  return dialFirst(web, addresses.slice(0, MAX_DIALLED), port, limits.connectMs, until)
}

/** Returns the addresses of a name, or why there are none. */
export async function lookUp(
  web: Pick<Web, 'resolve'>,
  host: string,
  lookupMs: number,
  until: AbortSignal,
): Promise<readonly string[] | Extract<ConnectResult, { outcome: 'failed' }>> {
  const deadline = AbortSignal.timeout(lookupMs)
  try {
    const found = await abortable(web.resolve(host, until), AbortSignal.any([until, deadline]))
    if (found.length > 0 && found.length <= MAX_ADDRESSES) return [...found]
    return { outcome: 'failed', status: 502, reason: 'name_without_address' }
  } catch {
    return deadline.aborted
      ? { outcome: 'failed', status: 504, reason: 'lookup_timeout' }
      : { outcome: 'failed', status: 502, reason: 'name_not_found' }
  }
}

async function dialFirst(
  web: Web,
  addresses: readonly string[],
  port: number,
  connectMs: number,
  until: AbortSignal,
): Promise<ConnectResult> {
  const deadline = AbortSignal.timeout(connectMs)
  const signal = AbortSignal.any([until, deadline])
  let reason = 'unreachable'
  for (const address of addresses) {
    try {
      return { outcome: 'connected', socket: await web.dial(address, port, signal), address }
    } catch (error) {
      if (signal.aborted) break
      const { code } = error as { readonly code?: unknown }
      reason = typeof code === 'string' && /^E[A-Z]{2,30}$/.test(code) ? code.toLowerCase() : 'unreachable'
    }
  }
  if (deadline.aborted) return { outcome: 'failed', status: 504, reason: 'connect_timeout' }
  return { outcome: 'failed', status: 502, reason }
}

/** Uses this machine's own lookups and connections. */
export function systemWeb(): Web {
  const lookups = new Semaphore(LOOKUPS_AT_ONCE)
  return {
    notPublic: nonPublicReason,
    resolve: (host, until) =>
      lookups.run(until, async () => {
        // The final dot makes the name absolute, so the resolver tries no search domains.
        const found = await lookup(`${host}.`, { all: true, order: 'verbatim' })
        return [...new Set(found.map(({ address }) => address))]
      }),
    dial: dialAddress,
  }
}

export function dialAddress(address: string, port: number, until: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    until.throwIfAborted()
    const socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      autoSelectFamily: false,
      noDelay: true,
    })
    const fail = (error: unknown) => {
      until.removeEventListener('abort', onAbort)
      socket.destroy()
      reject(error)
    }
    const onAbort = () => fail(until.reason)
    until.addEventListener('abort', onAbort, { once: true })
    socket.once('error', fail)
    socket.once('connect', () => {
      until.removeEventListener('abort', onAbort)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

/** Stops waiting for work that cannot be aborted. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    // Handles the rejection also after the abort, so that it is never unhandled.
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    if (signal.aborted) onAbort()
  })
}
