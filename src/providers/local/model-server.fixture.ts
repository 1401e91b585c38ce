/** A real HTTP server on loopback that answers as it is told, and remembers what it was asked. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ModelServer extends AsyncDisposable {
  readonly port: number
  /** `http://127.0.0.1:<port>/v1`. */
  readonly baseUrl: string
  /** Method and path of every request, in order. */
  readonly asked: readonly string[]
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void

export async function startModelServer(answer: Answer, host = '127.0.0.1'): Promise<ModelServer> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    answer(response, request)
  })
  await new Promise<void>((done, fail) => server.once('error', fail).listen(0, host, done))
  const { port } = server.address() as AddressInfo
  return {
    port,
    baseUrl: `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1`,
    asked: requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

/** What an OpenAI-compatible server says to `GET /v1/models`. */
export function listing(...names: readonly string[]): Answer {
  const data = names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'library' }))
  return json({ object: 'list', data })
}

export function json(value: unknown): Answer {
  return (response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(value))
  }
}

/** The body byte by byte, each in its own time, so that no single wait is long. */
export function slowly(body: string, everyMs: number): Answer {
  return (response) => {
    response.setHeader('content-type', 'application/json')
    let sent = 0
    const timer = setInterval(() => {
      response.write(body[sent++ % body.length])
    }, everyMs)
    response.once('close', () => clearInterval(timer))
  }
}

/** More and more, until the other side leaves. */
export function endless(response: ServerResponse): void {
  const more = () => {
    while (response.write('x'.repeat(64 * 1024)));
    response.once('drain', more)
  }
  more()
}
