/** Makes the host's end of the boundary out of a stream that a sidecar dialled: greets it, then hands it over. */
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { type Hello, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import { helloSchema, parseSidecarAnswer } from './answers.ts'
import { requestJson } from './ask.ts'
import type { Boundary, InboundHandler } from './boundary.ts'
import { Line } from './connection.ts'
import { BoundaryCounter, type CountedStream } from './counts.ts'
import { boundaryFiles } from './files.ts'
import { acceptInbound } from './inbound.ts'
import { boundaryJobs } from './jobs.ts'
import { boundaryInside } from './sandbox-calls.ts'
import { BOUNDARY_TIMEOUTS, type BoundaryTimeouts } from './timeouts.ts'

export interface ConnectOptions {
  /** Gets each connection from inside, and has to end it. */
  readonly onInbound: InboundHandler
  /** Goes on with the counts of the boundary before; otherwise they begin at nothing. */
  readonly counter?: BoundaryCounter
  readonly patience?: Partial<BoundaryTimeouts>
}

/** Fails, with the stream destroyed, when no sidecar of our version answers at the other end. */
export async function connectBoundary(
  stream: Duplex & CountedStream,
  until: AbortSignal,
  options: ConnectOptions,
): Promise<Boundary> {
  const counter = options.counter ?? new BoundaryCounter()
  const line = new Line(stream, { ...BOUNDARY_TIMEOUTS, ...options.patience })
  const release = counter.watch(stream)
  void line.closed.then(release)
  let hello: Hello
  try {
    hello = await greet(line, until)
  } catch (error) {
    await line.close()
    throw error
  }
  acceptInbound(line, counter, options.onInbound)
  return {
    hello,
    jobs: boundaryJobs(line, counter),
    files: boundaryFiles(line, counter),
    inside: boundaryInside(line, counter),
    counts: () => counter.read(),
    closed: line.closed,
    close: () => line.close(),
  }
}

/** Of another version, nothing else can be relied on. */
const anyHello = z.looseObject({ protocol: z.int() })

async function greet(line: Line, until: AbortSignal): Promise<Hello> {
  const question = { method: 'GET', path: '/hello', doing: 'identify the sandbox' } as const
  const said = await requestJson(line, question, anyHello, until, {
    deadlineMs: line.patience.helloMs,
    maxBytes: MAX_HELLO_BYTES,
  })
  if (said.protocol !== PROTOCOL_VERSION) {
    throw new CraikError(
      'version_mismatch',
      `the sandbox uses protocol version ${said.protocol}, this craik uses ${PROTOCOL_VERSION}`,
      { hint: 'recreate the sandbox:  craik sandbox delete ID, then craik sandbox create' },
    )
  }
  return parseSidecarAnswer(helloSchema, Buffer.from(JSON.stringify(said)), question.doing)
}

const MAX_HELLO_BYTES = 64 * 1024
