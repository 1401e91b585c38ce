/** Serves routes over a real HTTP/2 connection in this process, with a client that sends requests as the host does. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { type Duplex, duplexPair } from 'node:stream'
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../protocol.ts'
import { Router, type SidecarRoute } from '../router.ts'
import { serve } from '../server.ts'

export interface ServedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

export class Served implements AsyncDisposable {
  readonly session: ClientHttp2Session
  readonly faults: string[] = []
  readonly #guest: Duplex

  constructor(routes: readonly SidecarRoute[]) {
    const [host, guest] = duplexPair()
    this.#guest = guest
    serve(guest, new Router(routes), (line) => this.faults.push(line))
    this.session = connect('http://sidecar', { createConnection: () => host })
    this.session.on('error', () => {})
  }

  open(method: string, path: string, query: Record<string, string | number> = {}): ClientHttp2Stream {
    const search = new URLSearchParams(query as Record<string, string>)
    const stream = this.session.request(
      { ':method': method, ':path': `${path}?${search}`, [PROTOCOL_HEADER]: String(PROTOCOL_VERSION) },
      { endStream: method === 'GET' },
    )
    stream.on('error', () => {})
    return stream
  }

  async ask(
    method: string,
    path: string,
    query: Record<string, string | number> = {},
    body: Buffer | string = '',
  ): Promise<ServedAnswer> {
    const stream = this.open(method, path, query)
    if (method !== 'GET') stream.end(body)
    const headers = await responseOf(stream)
    return { status: headers[':status']!, headers, body: await collectBytes(stream) }
  }

  async json<T>(
    method: string,
    path: string,
    query: Record<string, string | number> = {},
    body: unknown = {},
  ) {
    const answer = await this.ask(method, path, query, JSON.stringify(body))
    return { status: answer.status, value: JSON.parse(answer.body.toString('utf8')) as T }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.session.destroy()
    this.#guest.destroy()
  }
}

/** Rejects when the stream ends without a response. */
export function responseOf(
  stream: ClientHttp2Stream,
): Promise<Record<string, string | string[] | undefined> & { ':status'?: number }> {
  return new Promise((resolve, reject) => {
    stream.once('response', (headers) => resolve(headers as never))
    stream.once('close', () => reject(new Error('closed without an answer')))
  })
}

/**
 * Reads by events, because an iterator treats a stream whose last frame has arrived as broken, even with unread bytes.
 */
export function collectBytes(stream: ClientHttp2Stream): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.once('close', () => resolve(Buffer.concat(chunks)))
    if (stream.destroyed) resolve(Buffer.alloc(0))
  })
}
