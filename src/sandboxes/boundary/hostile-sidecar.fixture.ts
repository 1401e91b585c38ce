/** Sidecars for tests, as bad as a test wants them: real HTTP/2 over a real Unix socket, or bytes of any kind. */
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
import type { JobId } from '../../lib/ids.ts'
import { type Hello, type JobResult, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import type { Boundary } from './boundary.ts'
import type { BoundaryTimeouts } from './boundary-timeouts.ts'
import { connectBoundary } from './connect-boundary.ts'
import { openHostSocket } from './host-socket.ts'

export const HELLO: Hello = {
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
export const NEVER = new AbortController().signal

/** Gets `GET /jobs` and the like; what it does not answer stays without an answer. */
export type Answer = (stream: ServerHttp2Stream, what: string, headers: IncomingHttpHeaders) => void

export interface Pair {
  /** The host's end, and the one that the inside has. */
  readonly host: Socket
  readonly inside: Socket
  [Symbol.asyncDispose](): Promise<void>
}

/** Two ends of one connection through the host's real listener. */
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
  /** Connections that the host was handed. */
  readonly inbound: Duplex[]
  /** Those of them that are too many. */
  readonly surplus: Duplex[]
  [Symbol.asyncDispose](): Promise<void>
}

/** A boundary whose sidecar greets as it should and then does what the test says. */
export async function hostileSidecar(
  answer: Answer,
  timeouts: Partial<BoundaryTimeouts> = {},
): Promise<Hostile> {
  const pair = await socketPair()
  const session = speak(pair.inside, (stream, what, headers) => {
    if (what === 'GET /hello') json(stream, 200, HELLO)
    else answer(stream, what, headers)
  })
  const inbound: Duplex[] = []
  const surplus: Duplex[] = []
  const boundary = await connectBoundary(pair.host, NEVER, {
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

export function speak(socket: Duplex, answer: Answer): ServerHttp2Session {
  const session = performServerHandshake(beside(socket), { settings: { maxConcurrentStreams: 4096 } })
  session.on('error', () => {})
  session.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    answer(stream, `${headers[':method']} ${headers[':path']?.split('?')[0]}`, headers)
  })
  return session
}

/** A stream over the socket that leaves the socket free for bytes that HTTP/2 would not write. */
function beside(socket: Duplex): Duplex {
  const stream = new Duplex({
    read: () => socket.resume(),
    // At once: a frame is written in parts, between which nothing else may come.
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

export function json(stream: ServerHttp2Stream, status: number, value: unknown): void {
  if (stream.destroyed) return
  stream.respond({ ':status': status })
  stream.end(typeof value === 'string' ? value : JSON.stringify(value))
  stream.resume()
}

/** One frame of HTTP/2, of any type. */
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

/** What an async call fails with. */
export async function failureOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise
  } catch (error) {
    return error as { code: string; message: string }
  }
  throw new Error('it did not fail')
}
