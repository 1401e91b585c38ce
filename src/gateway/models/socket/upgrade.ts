/**
 * Handles a client that requests a WebSocket. The gateway first opens one to the provider, decided and recorded like a
 * free call. Any failure is answered with 426: Codex then repeats the request over HTTP at once, and gets the actual
 * error there.
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { CraikError } from '../../../errors.ts'
import type { ProviderRecord } from '../../../providers/provider-record.ts'
import { faultMessage } from '../../config-fault.ts'
import { answerRaw } from '../../raw-response.ts'
import { addressCall, runCall, SIDE } from '../admitted-call.ts'
import type { Login } from '../choose-login.ts'
import { openaiResponsesDialect } from '../dialects/openai-responses.ts'
import { headersDown } from '../model-headers.ts'
import type { ModelRoute } from '../model-routes.ts'
import { describeUnserved } from '../unserved-error.ts'
import { ClientSocket, type Incoming, type SocketFault } from './client-socket.ts'
import { closesWithin } from './keep-alive.ts'
import { openWithLogin } from './open-upstream.ts'
import { type SocketCall, whoFor } from './socket-call.ts'
import { SocketSession, type SocketSessionOptions } from './socket-session.ts'
import type { UpstreamSocket } from './upstream-socket.ts'

/** How long a client can take to complete the close handshake. */
const LEAVE_MS = 5_000

/** Returns whether a route supports WebSocket. */
export function isSocketRoute(route: ModelRoute | undefined): route is ModelRoute {
  return route?.dialect === openaiResponsesDialect && route.path('') === '/responses'
}

/** Returns why the request is not a handshake. `undefined` when it is one. */
export function handshakeFault({ method, headers }: IncomingMessage): string | undefined {
  if (method !== 'GET' || headers.upgrade?.toLowerCase() !== 'websocket') return 'not a WebSocket request'
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined)
    return 'a WebSocket handshake cannot have a body'
  if (headers['sec-websocket-version'] !== '13') return 'only WebSocket version 13 is supported'
  return /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')
    ? undefined
    : 'the WebSocket key is invalid'
}

/** Resolves when the connection is over and all its calls are settled. */
export async function serveSocket(
  options: SocketSessionOptions,
  request: IncomingMessage,
  stream: Duplex,
  head: Buffer,
): Promise<void> {
  const { limits, closing, load } = options
  const gone = new AbortController()
  const onClose = () => gone.abort()
  stream.once('close', onClose)
  const opened = await opening({ ...options, until: AbortSignal.any([gone.signal, closing]) })
  if (typeof opened === 'string' || stream.destroyed) {
    if (typeof opened === 'string') answerRaw(stream, '426 Upgrade Required', opened)
    else opened.end()
    return
  }
  const session = new SocketSession(options, opened)
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: limits.bodyBytes,
    autoPong: false,
    // Handles one frame per turn of the event loop, so that a flood of pings from one sandbox does not delay the
    // others.
    allowSynchronousEvents: false,
    ...closesWithin(LEAVE_MS),
  })
  server.once('headers', (lines) => {
    for (const [name, value] of Object.entries(headersDown(opened.headers, opened.mask)))
      lines.push(`${name}: ${value}`)
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  // Also fires when the handshake itself fails.
  stream.once('close', () => resolve())
  server.handleUpgrade(request, stream, head, (socket) => {
    const listener = {
      message: (incoming: Incoming) => session.message(incoming),
      fault: (fault: SocketFault) => session.fault(fault),
    }
    resolve(session.serve(new ClientSocket(socket, stream, load, limits, listener)))
  })
  await promise
  opened.end()
}

type Opening = Omit<SocketCall, 'link' | 'client'> & Pick<SocketSessionOptions, 'refused'>

/** Opens the provider's WebSocket, or returns why none exists. */
async function opening(call: Opening): Promise<UpstreamSocket | string> {
  const { deps, caller, wanted, presented, until } = call
  const addressee = await whoFor(call)
  if ('error' in addressee) return addressee.error.message
  const { hop } = addressee
  const orConfigError = (error: unknown): CraikError => {
    if (error instanceof CraikError && error.code === 'invalid_config') return error
    throw error
  }
  const accounts = await deps.broker.accounts(until).catch(orConfigError)
  if (accounts instanceof CraikError) return faultMessage(accounts)
  const requested = { caller, wanted, accounts, presented, model: wanted.model }
  const found = await addressCall(deps, hop, requested).catch(orConfigError)
  if (found instanceof CraikError) return found.message
  if (typeof found === 'string') {
    const { rule, message } = describeUnserved(found, hop.record)
    call.refused(rule)
    return message
  }
  if ('kind' in found) return found.reason
  const { route, login } = found
  if (!supportsSocket(hop.record, login)) return `${hop.record.id} supports only HTTP`
  const done = await runCall(deps, hop, route, { asked: SIDE, free: true }, async (_hold, onEnd) => {
    const opened = await openWithLogin(call, login)
    const end = 'upstream' in opened ? ({ kind: 'answered' } as const) : opened.end
    onEnd({ end, usage: undefined, sentBytes: 0, receivedBytes: 0 })
    return 'upstream' in opened ? opened.upstream : undefined
  })
  if ('kind' in done) return done.reason
  return done.result ?? done.failed?.reason ?? 'the provider supports only HTTP'
}

/** A login uses the provider's own address, which supports WebSocket. A configured address is not assumed to. */
function supportsSocket({ metadata }: ProviderRecord, { account }: Login): boolean {
  return metadata.websocket ?? account?.family === 'openai'
}
