/**
 * Serves the whole API for real sandboxes on its own socket, with a client. The sandboxes use the real sidecar without
 * isolation.
 */
import { rmSync } from 'node:fs'
import { request } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { tempFolder } from '../../test/temp-folder.ts'
import { listenUnixSocket } from '../lib/unix-socket.ts'
import {
  allowCreate,
  MANAGER_OPERATOR,
  type ManagerScene,
  managerScene,
} from '../sandboxes/manager/manager.fixture.ts'
import { type ApiClient, createClient } from '../sdk/client.ts'
import { type ApiEndpoint, authorizationHeader } from '../sdk/transport.ts'
import { API_VERSION } from './api/api-constants.ts'
import type { SupervisorBody, VersionBody } from './api/bodies.ts'
import { createOperatorApi } from './api.ts'

/** The token that the API expects: sixty-four letters. */
const ACCESS_VALUE = 'a'.repeat(64)

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  readonly json: () => Record<string, unknown>
}

export interface ApiScene extends AsyncDisposable {
  readonly scene: ManagerScene
  readonly client: ApiClient
  readonly socketPath: string
  /** The endpoint for clients that a test creates itself. */
  readonly endpoint: ApiEndpoint
  readonly faults: unknown[]
  /** Returns routes such as `GET /health`. */
  routes(): readonly string[]
  draining: boolean
  drains: number
  /** Sends one request as any program could. */
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>
  /** Creates a sandbox that runs. */
  create(name?: string): Promise<string>
  /** Returns a client whose connections break after a number of bytes, which differs for each connection. */
  breakingClient(nextBytes: () => number): Promise<ApiClient & { readonly breaks: () => number }>
}

interface AskOptions {
  /** Default: the right token. An empty token sends none. */
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

export async function apiScene(): Promise<ApiScene> {
  const scene = managerScene()
  const folder = tempFolder('craik-api-')
  const socketPath = join(folder, 'api.sock')
  const faults: unknown[] = []
  const closers: (() => void)[] = []
  const version: VersionBody = {
    api: API_VERSION,
    version: '0.0.0',
    build: 'test',
    built_at_ms: 0,
    program_gone: false,
    pid: process.pid,
    ready: true,
  }
  const status: SupervisorBody = {
    ...version,
    started_at_ms: 0,
    draining: false,
    sandboxes: 0,
    warm: 0,
    connections: 0,
    memory_bytes: 0,
    idle_ms: 0,
    engine: null,
  }
  const { app, routes } = await createOperatorApi({
    manager: Promise.resolve(scene.manager),
    operator: async () => MANAGER_OPERATOR,
    token: ACCESS_VALUE,
    supervisor: {
      version: () => version,
      status: async () => status,
      offerPrograms: () => {},
      get draining() {
        return api.draining
      },
      drain: () => {
        api.drains++
      },
    },
    onFault: (error) => faults.push(error),
  })
  await listenUnixSocket(app.server, socketPath, 0o600)
  const sockets = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const endpoint = { socketPath, token: ACCESS_VALUE }
  const client = createClient({ connect: async () => endpoint })
  closers.push(() => client.close())

  const api: ApiScene = {
    scene,
    client,
    socketPath,
    endpoint,
    faults,
    routes: () => routes,
    draining: false,
    drains: 0,
    ask: (method, path, options = {}) => ask(socketPath, method, path, options),
    async create(name) {
      await allowCreate(scene.store)
      return (await client.sandboxes.create({ isolation: 'none', ...(name !== undefined && { name }) })).id
    },
    async breakingClient(nextBytes) {
      const path = join(folder, `breaking-${closers.length}.sock`)
      const through = await breakingProxy(path, socketPath, nextBytes)
      const breaking = createClient({ connect: async () => ({ socketPath: path, token: ACCESS_VALUE }) })
      closers.push(() => {
        breaking.close()
        through.close()
      })
      return { ...breaking, breaks: through.breaks }
    },
    async [Symbol.asyncDispose]() {
      for (const close of closers) close()
      for (const socket of sockets) socket.destroy()
      await app.close()
      await scene[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return api
}

function ask(
  socketPath: string,
  method: string,
  path: string,
  { token = ACCESS_VALUE, headers, body }: AskOptions,
): Promise<Answer> {
  const entry = token === '' ? {} : authorizationHeader(token)
  return new Promise((done, fail) => {
    const outgoing = request({
      socketPath,
      method,
      path,
      agent: false,
      headers: { ...entry, ...headers },
    })
    outgoing.once('error', fail)
    outgoing.once('response', async (response) => {
      const chunks: Buffer[] = []
      try {
        for await (const chunk of response) chunks.push(chunk as Buffer)
      } catch (error) {
        return fail(error)
      }
      const text = Buffer.concat(chunks).toString()
      done({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        json: () => JSON.parse(text) as Record<string, unknown>,
      })
    })
    outgoing.end(body)
  })
}

/** Forwards this many bytes, then closes the connection without notice. */
async function breakingProxy(path: string, target: string, nextBytes: () => number) {
  let breaks = 0
  const open = new Set<Socket>()
  const server = createServer((inner) => {
    const outer = connect(target)
    let left = nextBytes()
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      open.add(from)
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.on('error', () => {})
      from.on('data', (chunk: Buffer) => {
        left -= chunk.length
        if (left >= 0) {
          if (!to.write(chunk)) from.pause()
          return
        }
        breaks++
        to.write(chunk.subarray(0, Math.max(0, chunk.length + left)))
        inner.destroy()
        outer.destroy()
      })
      to.on('drain', () => from.resume())
    }
  })
  await listenUnixSocket(server, path, 0o600)
  return {
    breaks: () => breaks,
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
