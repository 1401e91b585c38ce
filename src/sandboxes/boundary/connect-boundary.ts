/**
 * Creates the host's end of the boundary from a stream that a sidecar opened: greets the sidecar, then returns the
 * boundary.
 */
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { type Hello, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import { acceptInbound } from './accept-inbound.ts'
import type { Boundary, InboundHandler } from './boundary.ts'
import { BoundaryCounter, type CountedStream } from './boundary-counter.ts'
import { BOUNDARY_TIMEOUTS, type BoundaryTimeouts } from './boundary-timeouts.ts'
import { BoundaryConnection } from './connection.ts'
import { boundaryFiles } from './file-calls.ts'
import { boundaryJobs } from './job-calls.ts'
import { boundaryInspection } from './sandbox-calls.ts'
import { requestJson } from './sidecar-request.ts'
import { helloSchema, parseSidecarAnswer } from './sidecar-responses.ts'

export interface ConnectOptions {
  /** Receives each connection from the sandbox, and must end it. */
  readonly onInbound: InboundHandler
  /** Continues the counts of the previous boundary. Without it, the counts start at zero. */
  readonly counter?: BoundaryCounter
  readonly timeouts?: Partial<BoundaryTimeouts>
}

/** Throws, and destroys the stream, when no sidecar with this protocol version answers. */
export async function connectBoundary(
  stream: Duplex & CountedStream,
  until: AbortSignal,
  options: ConnectOptions,
): Promise<Boundary> {
  const counter = options.counter ?? new BoundaryCounter()
  const connection = new BoundaryConnection(stream, { ...BOUNDARY_TIMEOUTS, ...options.timeouts })
  const release = counter.watch(stream)
  void connection.closed.then(release)
  let hello: Hello
  try {
    hello = await greet(connection, until)
  } catch (error) {
    await connection.close()
    throw error
  }
  acceptInbound(connection, counter, options.onInbound)
  return {
    hello,
    jobs: boundaryJobs(connection, counter),
    files: boundaryFiles(connection, counter),
    inside: boundaryInspection(connection, counter),
    counts: () => counter.read(),
    closed: connection.closed,
    close: () => connection.close(),
  }
}

/** In another protocol version, no other field is reliable. */
const anyHello = z.looseObject({ protocol: z.int() })

async function greet(connection: BoundaryConnection, until: AbortSignal): Promise<Hello> {
  const question = { method: 'GET', path: '/hello', doing: 'identify the sandbox' } as const
  const reply = await requestJson(connection, question, anyHello, until, {
    deadlineMs: connection.timeouts.helloMs,
    maxBytes: MAX_HELLO_BYTES,
  })
  if (reply.protocol !== PROTOCOL_VERSION) {
    throw new CraikError(
      'version_mismatch',
      `the sandbox uses protocol version ${reply.protocol}, this craik uses ${PROTOCOL_VERSION}`,
      { hint: 'recreate the sandbox:  craik sandbox delete ID   then:  craik sandbox create' },
    )
  }
  return parseSidecarAnswer(helloSchema, Buffer.from(JSON.stringify(reply)), question.doing)
}

const MAX_HELLO_BYTES = 64 * 1024
