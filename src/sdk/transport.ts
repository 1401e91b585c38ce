/** Sends one request over the supervisor's socket, and translates its failure. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Readable } from 'node:stream'
import { CraikError, ERRORS, type ErrorCode } from '../errors.ts'
import { connectUnixSocket } from '../lib/unix-socket.ts'
import { PORT_PROTOCOL } from '../operator/api/api-constants.ts'
import type { ErrorBody } from '../operator/api/bodies.ts'
import { addSandboxName } from './named-hint.ts'

// An import would read every name of the module. One of them makes Node load all of `fetch`, which takes a good part of
// a command's start.
const { Agent, request } = process.getBuiltinModule('node:http')

/** The address of the API, and the token that it requires. Both change when the supervisor restarts. */
export interface ApiEndpoint {
  readonly socketPath: string
  readonly token: string
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly body?: Readable
  readonly signal?: AbortSignal
}

/** An error body is smaller than this. A larger one is not an error of Craik. */
const MAX_ERROR_BYTES = 64 * 1024
const MAX_JSON_BYTES = 16 * 1024 * 1024

/** The connection broke, or there was none. `sent` means that the supervisor may have received the request. */
export class LostConnection extends Error {
  readonly sent: boolean

  constructor(cause: unknown, sent: boolean) {
    super('the connection to the supervisor was lost', { cause })
    this.name = 'LostConnection'
    this.sent = sent
  }
}

/** Keeps connections to one endpoint open between requests. */
export class Transport {
  readonly endpoint: ApiEndpoint
  readonly #agent: SocketAgent

  constructor(endpoint: ApiEndpoint) {
    this.endpoint = endpoint
    this.#agent = new SocketAgent(endpoint.socketPath)
  }

  /**
   * Resolves with the head of the response. For a status of 400 and above, throws the error that the body describes.
   */
  async send(requested: ApiRequest): Promise<IncomingMessage> {
    const response = await this.#exchange(requested)
    if ((response.statusCode ?? 500) < 400) return response
    try {
      throw addSandboxName(await errorOf(response), requested.path)
    } finally {
      // The body is destroyed only after the error is read. A body that breaks off closes its connection, and the rest
      // of the response would be lost.
      requested.body?.destroy()
    }
  }

  /** Turns the connection into a raw stream to a port. */
  upgrade(path: string, headers: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Duplex> {
    return new Promise((done, fail) => {
      const outgoing = request({
        // Node calls this function only when `agent` is not set. With `agent: false`, Node ignores it.
        createConnection: () => connectUnixSocket(this.endpoint.socketPath),
        path,
        headers: { ...this.#headers(), ...headers, connection: 'Upgrade', upgrade: PORT_PROTOCOL },
        ...(signal && { signal }),
      })
      outgoing.once('upgrade', (_response, socket, head) => {
        if (head.length > 0) socket.unshift(head)
        done(socket)
      })
      outgoing.once('response', (response) =>
        errorOf(response).then((error) => fail(addSandboxName(error, path)), fail),
      )
      outgoing.once('error', (error) => fail(connectionError(error, signal)))
      outgoing.end()
    })
  }

  /** Closes idle connections. Running requests continue, unless all connections are closed. */
  close(all: boolean): void {
    if (all) this.#agent.destroy()
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of sockets ?? []) socket.destroy()
  }

  #headers(): Record<string, string> {
    return { host: 'craik', ...authorizationHeader(this.endpoint.token) }
  }

  #exchange(requested: ApiRequest): Promise<IncomingMessage> {
    const { json, body, signal } = requested
    const text = json === undefined ? undefined : Buffer.from(JSON.stringify(json))
    const headers: Record<string, string | number> = { ...this.#headers(), ...requested.headers }
    if (text !== undefined) {
      headers['content-type'] = 'application/json'
      headers['content-length'] = text.length
    }
    return new Promise((done, fail) => {
      const { method, path } = requested
      const outgoing = request({
        agent: this.#agent,
        method,
        path,
        headers,
        ...(signal && { signal }),
      })
      outgoing.once('response', (response) => {
        // An error that arrives before the body is sent is final, so the rest of the body is not needed.
        if ((response.statusCode ?? 500) >= 400) body?.unpipe(outgoing)
        done(response)
      })
      outgoing.on('error', (error) => {
        body?.destroy()
        fail(connectionError(error, signal))
      })
      if (body === undefined) {
        outgoing.end(text)
        return
      }
      // Without this call, the head would wait for the first byte of the body, which may be a key that the user presses
      // in an hour.
      outgoing.flushHeaders()
      // A body that breaks off aborts the request, so that the supervisor never mistakes a part for the whole.
      body.once('error', (error) => outgoing.destroy(error))
      body.once('close', () => body.readableEnded || outgoing.destroy())
      body.pipe(outgoing)
    })
  }
}

/** Returns the header that contains the token. */
export function authorizationHeader(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` }
}

class SocketAgent extends Agent {
  readonly #path: string

  constructor(path: string) {
    super({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
    this.#path = path
  }

  override createConnection(): Duplex {
    return connectUnixSocket(this.#path)
  }
}

/** Returns the JSON of a response, which must be complete. */
export async function jsonOf<T>(response: IncomingMessage): Promise<T> {
  return JSON.parse((await bodyOf(response, MAX_JSON_BYTES)).toString()) as T
}

export async function discard(response: IncomingMessage): Promise<void> {
  await bodyOf(response, MAX_JSON_BYTES)
}

async function bodyOf(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of responseChunks(response)) {
    length += chunk.length
    if (length > maxBytes)
      throw new CraikError('too_large', `the response of the supervisor is larger than ${maxBytes} bytes`, {
        hint: 'see the log of the supervisor:  craik supervisor logs',
      })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/**
 * Yields the bytes of a response. A broken connection throws `LostConnection`, which distinguishes it from an error of
 * the reader.
 */
export async function* responseChunks(response: IncomingMessage): AsyncGenerator<Buffer> {
  const chunks = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await chunks.next().catch((error) => {
        throw new LostConnection(error, true)
      })
      if (next.done) return
      yield next.value
    }
  } finally {
    // A response that was read to its end releases its connection. The rest of any other response is not needed.
    if (!response.readableEnded) response.destroy()
  }
}

async function errorOf(response: IncomingMessage): Promise<Error> {
  const text = (await bodyOf(response, MAX_ERROR_BYTES)).toString()
  let body: Partial<ErrorBody> = {}
  try {
    body = JSON.parse(text) as Partial<ErrorBody>
  } catch {
    // The body is not from Craik, so the error contains only the status.
  }
  const code = isErrorCode(body.code) ? body.code : 'internal'
  return new CraikError(code, body.error ?? `the supervisor answered ${response.statusCode}`, {
    ...(body.hint !== undefined && { hint: body.hint }),
    ...(body.details !== undefined && { details: body.details }),
  })
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERRORS, code)
}

/** These errors occur before there is a connection, so the request was not sent. */
const NOT_SENT = new Set(['ENOENT', 'ECONNREFUSED'])

function connectionError(error: Error, signal: AbortSignal | undefined): Error {
  if (signal?.aborted) return signal.reason instanceof Error ? signal.reason : error
  if (error instanceof CraikError) return error
  return new LostConnection(error, !NOT_SENT.has((error as NodeJS.ErrnoException).code ?? ''))
}

/** Creates a request body from data that is available. */
export function bodyFrom(source: Iterable<Buffer> | AsyncIterable<Buffer>): Readable {
  return Readable.from(source, { objectMode: false })
}
