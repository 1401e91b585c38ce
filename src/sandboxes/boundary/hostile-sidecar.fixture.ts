/** Sidecars that misbehave as a test requires, with real HTTP/2 over a real Unix socket, or with arbitrary bytes. */

import { rmSync } from 'node:fs'
import {
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { tempFolder } from '../../../test/temp-folder.ts'
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { type Hello, type JobResult, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import type { Boundary } from './boundary.ts'
import type { BoundaryTimeouts } from './boundary-timeouts.ts'
import { connectBoundary } from './connect-boundary.ts'
import { openHostSocket } from './host-socket.ts'

export const SIDECAR_HELLO: Hello = {
  protocol: PROTOCOL_VERSION,
  version: '0.1.0',
  instance: 'test',
  startedAtMs: 1,
  home: '/workspace/home',
  workspace: '/workspace/home/project',
  gatewayPort: 8118,
  pty: false,
}

export const RESULT: JobResult = {
  outcome: 'exited',
  exitCode: 0,
  signal: null,
  stdoutBytes: 0,
  stderrBytes: 0,
  stdinBytes: 0,
  durationMs: 1,
}

export const JOB = 'job_1' as JobId

/** Receives requests such as `GET /jobs`. A request that it does not answer gets no response. */
export type HostileAnswer = (stream: ServerHttp2Stream, what: string, headers: IncomingHttpHeaders) => void

export interface Pair {
  /** The host's end of the connection, and the sandbox's end. */
  readonly host: Socket
  readonly inside: Socket
  [Symbol.asyncDispose](): Promise<void>
}

/** Connects two ends through the host's real listener. */
export async function socketPair(): Promise<Pair> {
  const folder = tempFolder('craik-boundary-')
  const accepted = Promise.withResolvers<Socket>()
  const listener = await openHostSocket(join(folder, 'socket'), {
    onConnection: accepted.resolve,
    onRefused: () => {},
  })
  const inside = connect(join(folder, 'socket', 'host.sock'))
  inside.on('error', () => {})
  return {
    host: await accepted.promise,
    inside,
    async [Symbol.asyncDispose]() {
      inside.destroy()
      await listener.close()
      rmSync(folder, { recursive: true })
    },
  }
}

export interface Hostile {
  readonly boundary: Boundary
  readonly inside: Socket
  readonly session: ServerHttp2Session
  /** The connections that the host received within the limit. */
  readonly inbound: Duplex[]
  /** The connections that the host received as surplus. */
  readonly surplus: Duplex[]
  [Symbol.asyncDispose](): Promise<void>
}

/** Connects to a sidecar that greets correctly and then does what the test says. */
export async function hostileSidecar(
  answer: HostileAnswer,
  timeouts: Partial<BoundaryTimeouts> = {},
): Promise<Hostile> {
  const pair = await socketPair()
  const session = serveHttp2(pair.inside, (stream, what, headers) => {
    if (what === 'GET /hello') sendJson(stream, 200, SIDECAR_HELLO)
    else answer(stream, what, headers)
  })
  const inbound: Duplex[] = []
  const surplus: Duplex[] = []
  const boundary = await connectBoundary(pair.host, NEVER_ABORTED, {
    onInbound: (stream, isSurplus) => (isSurplus ? surplus : inbound).push(stream),
    timeouts,
  })
  return {
    boundary,
    inside: pair.inside,
    session,
    inbound,
    surplus,
    async [Symbol.asyncDispose]() {
      await boundary.close()
      await pair[Symbol.asyncDispose]()
    },
  }
}

export function serveHttp2(socket: Duplex, answer: HostileAnswer): ServerHttp2Session {
  const session = performServerHandshake(shareSocket(socket), { settings: { maxConcurrentStreams: 4096 } })
  session.on('error', () => {})
  session.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    answer(stream, `${headers[':method']} ${headers[':path']?.split('?')[0]}`, headers)
  })
  return session
}

/** Returns a stream over the socket. The test can still write bytes to the socket that HTTP/2 would not write. */
function shareSocket(socket: Duplex): Duplex {
  const stream = new Duplex({
    read: () => socket.resume(),
    // Writes at once, because HTTP/2 writes a frame in parts and nothing else may come between them.
    write(chunk, _encoding, done) {
      socket.write(chunk)
      done()
    },
    final: (done) => socket.end(() => done()),
    destroy(error, done) {
      socket.destroy()
      done(error)
    },
  })
  socket.on('data', (chunk) => stream.push(chunk) || socket.pause())
  socket.on('close', () => stream.destroy())
  return stream
}

export function sendJson(stream: ServerHttp2Stream, status: number, value: unknown): void {
  if (stream.destroyed) return
  stream.respond({ ':status': status })
  stream.end(typeof value === 'string' ? value : JSON.stringify(value))
  stream.resume()
}

/** Builds one HTTP/2 frame of any type. */
export function http2Frame(
  type: number,
  flags: number,
  stream: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const header = Buffer.alloc(9)
  header.writeUIntBE(payload.length, 0, 3)
  header.writeUInt8(type, 3)
  header.writeUInt8(flags, 4)
  header.writeUInt32BE(stream, 5)
  return Buffer.concat([header, payload])
}

/** Returns the error that a promise rejects with. Throws any error that is not Craik's own. */
export async function expectCraikError(promise: Promise<unknown>): Promise<CraikError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof CraikError) return error
    throw error
  }
  throw new Error('it did not fail')
}
