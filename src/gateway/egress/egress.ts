/** The egress proxy: what a gateway's HTTP server hands over that is not for the gateway itself. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { answerStream, egressRefusal, malformed } from './answers.ts'
import { type EgressConnectionOptions, EgressConnections } from './connections.ts'
import { factsOf } from './facts.ts'
import { DEFAULT_EGRESS_LIMITS, type EgressLimits } from './limits.ts'
import { isNameProblem } from './names.ts'
import { parsePlainUrl } from './paths.ts'
import { forwardPlainHttp } from './plain.ts'
import { tunnel } from './tunnel.ts'
import { systemWeb, type Web } from './web.ts'

export interface EgressOptions extends Omit<EgressConnectionOptions, 'web' | 'limits'> {
  /** For tests: the web, or a part of it. */
  readonly web?: Partial<Web>
  readonly limits?: Partial<EgressLimits>
}

export interface Egress {
  /** For `connect` of an HTTP server. */
  handleConnect(caller: GatewayCaller, request: IncomingMessage, stream: Duplex, head: Buffer): void
  /** For a `request` in absolute form. */
  handlePlain(caller: GatewayCaller, request: IncomingMessage, response: ServerResponse): void
  /** For `upgrade` in absolute form: refused. */
  handleUpgrade(caller: GatewayCaller, request: IncomingMessage, stream: Duplex): void
  /** For `clientError`: what is no HTTP, or has a head without end. */
  handleMalformed(caller: GatewayCaller, error: Error, stream: Duplex): void
  /** Ends what is open; everything has its receipt when it is done. Idempotent. */
  close(): Promise<void>
}

/** A server that hands over here is made with `SERVER_OPTIONS` of limits.ts. */
export function createEgress(options: EgressOptions): Egress {
  const limits = { ...DEFAULT_EGRESS_LIMITS, ...options.limits }
  const passages = new EgressConnections({ ...options, limits, web: { ...systemWeb(), ...options.web } })
  const running = new Set<Promise<void>>()
  let closed: Promise<void> | undefined
  const run = (work: Promise<void>, giveUp: () => void) => {
    const settled = work.catch(giveUp).finally(() => running.delete(settled))
    running.add(settled)
  }
  return {
    handleConnect(caller, request, stream, head) {
      run(tunnel(passages, limits, caller, request, stream, head), () => stream.destroy())
    },
    handlePlain(caller, request, response) {
      run(forwardPlainHttp(passages, limits, caller, request, response), () => response.destroy())
    },
    handleUpgrade(caller, request, stream) {
      stream.on('error', () => {})
      run(refuseUpgrade(passages, caller, request, stream), () => stream.destroy())
    },
    handleMalformed(caller, error, stream) {
      stream.on('error', () => {})
      const answer = malformed('it is not valid HTTP')
      const isTooLong = (error as NodeJS.ErrnoException).code === 'HPE_HEADER_OVERFLOW'
      const refused = isTooLong ? { ...answer, status: 431 as const } : answer
      run(
        passages.refuse(caller, factsOf('malformed')).then(() => answerStream(stream, refused)),
        () => stream.destroy(),
      )
    },
    close() {
      closed ??= (async () => {
        passages.stop()
        while (running.size > 0) await Promise.all(running)
        await passages.close()
      })()
      return closed
    },
  }
}

async function refuseUpgrade(
  passages: EgressConnections,
  caller: GatewayCaller,
  request: IncomingMessage,
  stream: Duplex,
): Promise<void> {
  const target = parsePlainUrl(request.url ?? '')
  if (isNameProblem(target)) {
    await passages.refuse(caller, factsOf('malformed'))
    answerStream(stream, malformed(target.problem))
    return
  }
  const asked = { ...target.destination, protocol: 'http', method: request.method } as const
  await passages.refuse(caller, factsOf('upgrade', asked))
  answerStream(stream, egressRefusal(caller, asked, 'egress.upgrade'))
}
