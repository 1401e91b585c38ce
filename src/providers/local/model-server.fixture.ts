/** A real HTTP server on loopback with scripted responses. It records the requests. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ModelServer extends AsyncDisposable {
  readonly port: number
  /** `http://127.0.0.1:<port>/v1`. */
  readonly baseUrl: string
  /** The method and path of every request, in order. */
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

/** Responds as an OpenAI-compatible server does to `GET /v1/models`. */
export function respondWithModels(...names: readonly string[]): Answer {
  const data = names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'library' }))
  return jsonAnswer({ object: 'list', data })
}

export function jsonAnswer(value: unknown): Answer {
  return (response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(value))
  }
}

/** Sends the body byte by byte with pauses, so that no single wait is long. */
export function respondSlowly(body: string, everyMs: number): Answer {
  return (response) => {
    response.setHeader('content-type', 'application/json')
    let sent = 0
    const timer = setInterval(() => {
      response.write(body[sent++ % body.length])
    }, everyMs)
    response.once('close', () => clearInterval(timer))
  }
}

/** Sends data without end, until the client closes the connection. */
export function respondEndlessly(response: ServerResponse): void {
  const more = () => {
    while (response.write('x'.repeat(64 * 1024)));
    response.once('drain', more)
  }
  more()
}
