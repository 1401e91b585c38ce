/** A gateway, a provider behind it that supports WebSocket, and WebSocket clients of the gateway. */
import { once } from 'node:events'
import { afterEach, expect } from 'vitest'
import { WebSocket } from 'ws'
import {
  type SocketAct,
  type SocketServer,
  startResponsesSocket,
  type UpgradeAct,
} from '../../../../test/wire/responses-socket.ts'
import { tokenBudget } from '../../../providers/dispatch.fixture.ts'
import { account, CERTIFICATE, type GatewayScene, gatewayScene, MemoryBroker } from '../../gateway.fixture.ts'

export const CREATE = {
  type: 'response.create',
  model: 'gpt-x',
  input: [{ type: 'message', role: 'user', content: 'hi' }],
  store: false,
  max_output_tokens: 4000,
}
export const HELLO_ACT = { kind: 'text', text: 'hello there' } as const satisfies SocketAct

const cleanups: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of cleanups.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

interface Event {
  readonly type: string
  readonly status?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly response?: { readonly id: string; readonly error?: { readonly message: string } }
  readonly delta?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A client that behaves like Codex: one message at a time, and its events up to the last one. */
class TestClient {
  readonly socket: WebSocket
  readonly closed: Promise<number>
  readonly upgraded: Promise<Record<string, unknown>>
  readonly #events: Event[] = []
  #waiting: PromiseWithResolvers<void> | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    this.closed = once(socket, 'close').then(([code]) => Number(code))
    this.upgraded = once(socket, 'upgrade').then(([answer]) => answer.headers)
    this.upgraded.catch(() => {})
    socket.on('error', () => {})
    socket.on('message', (data: Buffer) => {
      this.#events.push(JSON.parse(String(data)))
      this.#waiting?.resolve()
    })
    socket.once('close', () => this.#waiting?.reject(new Error('closed')))
  }

  async next(): Promise<Event> {
    while (this.#events.length === 0) {
      this.#waiting = Promise.withResolvers()
      await this.#waiting.promise
    }
    return this.#events.shift()!
  }

  /** Returns the events up to the final one. */
  async answer(): Promise<Event[]> {
    const events: Event[] = []
    for (;;) {
      const event = await this.next()
      events.push(event)
      if (/^(?:error|response\.(?:completed|incomplete|failed))$/.test(event.type)) return events
    }
  }

  async ask(message: unknown): Promise<Event[]> {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message))
    return this.answer()
  }
}

interface SocketScene {
  readonly server: SocketServer
  readonly broker: MemoryBroker
  readonly gateway: GatewayScene
  connect(options?: { path?: string; headers?: Record<string, string> }): Promise<TestClient>
  /** Returns the status and body of the refused upgrade. */
  expectUpgradeRefused(options?: {
    path?: string
    headers?: Record<string, string>
  }): Promise<{ status: number; body: string }>
  /** Waits until everything is settled. Returns the ends of all calls, oldest first, with their outcomes. */
  ends(): Promise<readonly { status: string | undefined; failure: unknown }[]>
  rules(): Promise<readonly (string | undefined)[]>
}

export async function socketScene(
  script: readonly SocketAct[],
  {
    upgrades,
    ...options
  }: Partial<Parameters<typeof gatewayScene>[0]> & {
    readonly upgrades?: readonly (UpgradeAct | 'accept')[]
  } = {},
): Promise<SocketScene> {
  const server = await startResponsesSocket(script, CERTIFICATE, upgrades)
  cleanups.push(server)
  const login = account({ id: 'secret/OPENAI_API_KEY', family: 'openai', baseUrl: server.baseUrl })
  const broker = new MemoryBroker(login)
  const gateway = await gatewayScene({ broker, ...options })
  cleanups.push(gateway)
  await tokenBudget(gateway.at, 100_000_000)
  const url = async (path = '/v1/responses') => `ws://127.0.0.1:${await gateway.port()}${path}`
  const bodies = async () => {
    await gateway.gateway.close()
    expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
    expect(gateway.faults).toEqual([])
    return gateway.at.store.bodies()
  }
  return {
    server,
    broker,
    gateway,
    async connect({ path, headers = {} } = {}) {
      const client = new TestClient(new WebSocket(await url(path), { headers }))
      await once(client.socket, 'open')
      return client
    },
    async expectUpgradeRefused({ path, headers = {} } = {}) {
      const socket = new WebSocket(await url(path), { headers })
      socket.on('error', () => {})
      const [, answer] = await once(socket, 'unexpected-response')
      let body = ''
      for await (const piece of answer) body += String(piece)
      return { status: answer.statusCode, body }
    },
    async ends() {
      return (await bodies())
        .filter(({ kind, phase }) => kind === 'provider_action' && phase === 'end')
        .map(({ status, metadata }) => ({ status, failure: metadata?.failure }))
    },
    async rules() {
      return (await bodies()).filter(({ kind }) => kind === 'denial').map(({ decision }) => decision?.rule)
    },
  }
}
