/** The egress proxy: handles the requests to a gateway's HTTP server that are not for the gateway itself. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { type EgressConnectionOptions, EgressConnections } from './egress-connections.ts'
import { isNameProblem } from './egress-destination.ts'
import { factsOf } from './egress-facts.ts'
import { DEFAULT_EGRESS_LIMITS, type EgressLimits } from './egress-limits.ts'
import { answerStream, egressRefusal, malformedRequest } from './egress-responses.ts'
import { forwardPlainHttp } from './plain-http.ts'
import { tunnel } from './tunnel.ts'
import { parsePlainUrl } from './url-paths.ts'
import { systemWeb, type Web } from './web.ts'

export interface EgressOptions extends Omit<EgressConnectionOptions, 'web' | 'limits'> {
  /** For tests: replaces the web, or a part of it. */
  readonly web?: Partial<Web>
  readonly limits?: Partial<EgressLimits>
}

export interface Egress {
  /** Handles `connect` of an HTTP server. */
  handleConnect(caller: GatewayCaller, request: IncomingMessage, stream: Duplex, head: Buffer): void
  /** Handles a `request` in absolute form. */
  handlePlain(caller: GatewayCaller, request: IncomingMessage, response: ServerResponse): void
  /** Handles `upgrade` in absolute form: refuses it. */
  handleUpgrade(caller: GatewayCaller, request: IncomingMessage, stream: Duplex): void
  /** Handles `clientError`: bytes that are not HTTP, or an endless head. */
  handleMalformed(caller: GatewayCaller, error: Error, stream: Duplex): void
  /** Ends the open connections and resolves when each has its receipt. Idempotent. */
  close(): Promise<void>
}

/** The HTTP server must be created with `SERVER_OPTIONS` of egress-limits.ts. */
export function createEgress(options: EgressOptions): Egress {
  const limits = { ...DEFAULT_EGRESS_LIMITS, ...options.limits }
  const connections = new EgressConnections({ ...options, limits, web: { ...systemWeb(), ...options.web } })
  const running = new Set<Promise<void>>()
  let closed: Promise<void> | undefined
  const run = (work: Promise<void>, giveUp: () => void) => {
    const settled = work.catch(giveUp).finally(() => running.delete(settled))
    running.add(settled)
  }
  return {
    handleConnect(caller, request, stream, head) {
      run(tunnel(connections, limits, caller, request, stream, head), () => stream.destroy())
    },
    handlePlain(caller, request, response) {
      run(forwardPlainHttp(connections, limits, caller, request, response), () => response.destroy())
    },
    handleUpgrade(caller, request, stream) {
      stream.on('error', () => {})
      run(refuseUpgrade(connections, caller, request, stream), () => stream.destroy())
    },
    handleMalformed(caller, error, stream) {
      stream.on('error', () => {})
      const answer = malformedRequest('it is not valid HTTP')
      const isTooLong = (error as NodeJS.ErrnoException).code === 'HPE_HEADER_OVERFLOW'
      const refused = isTooLong ? { ...answer, status: 431 as const } : answer
      run(
        connections.refuse(caller, factsOf('malformed')).then(() => answerStream(stream, refused)),
        () => stream.destroy(),
      )
    },
    close() {
      closed ??= (async () => {
        connections.stop()
        while (running.size > 0) await Promise.all(running)
        await connections.close()
      })()
      return closed
    },
  }
}

async function refuseUpgrade(
  connections: EgressConnections,
  caller: GatewayCaller,
  request: IncomingMessage,
  stream: Duplex,
): Promise<void> {
  const target = parsePlainUrl(request.url ?? '')
  if (isNameProblem(target)) {
    await connections.refuse(caller, factsOf('malformed'))
    answerStream(stream, malformedRequest(target.problem))
    return
  }
  const requested = { ...target.destination, protocol: 'http', method: request.method } as const
  await connections.refuse(caller, factsOf('upgrade', requested))
  answerStream(stream, egressRefusal(caller, requested, 'egress.upgrade'))
}
