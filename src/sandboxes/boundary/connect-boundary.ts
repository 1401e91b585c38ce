/** Makes the host's end of the boundary out of a stream that a sidecar dialled: greets it, then hands it over. */
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
import { boundaryInside } from './sandbox-calls.ts'
import { requestJson } from './sidecar-request.ts'
import { helloSchema, parseSidecarAnswer } from './sidecar-responses.ts'

export interface ConnectOptions {
  /** Gets each connection from inside, and has to end it. */
  readonly onInbound: InboundHandler
  /** Goes on with the counts of the boundary before; otherwise they begin at nothing. */
  readonly counter?: BoundaryCounter
  readonly timeouts?: Partial<BoundaryTimeouts>
}

/** Fails, with the stream destroyed, when no sidecar of our version answers at the other end. */
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
    inside: boundaryInside(connection, counter),
    counts: () => counter.read(),
    closed: connection.closed,
    close: () => connection.close(),
  }
}

/** Of another version, nothing else can be relied on. */
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
      { hint: 'recreate the sandbox:  craik sandbox delete ID, then craik sandbox create' },
    )
  }
  return parseSidecarAnswer(helloSchema, Buffer.from(JSON.stringify(reply)), question.doing)
}

const MAX_HELLO_BYTES = 64 * 1024
