/** An egress proxy on a free loopback port, and a small web of real servers behind names and public addresses. */
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Server as NetServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import { selfSigned } from '../../../test/wire/certificate.ts'
import { createEnvelope } from '../../policy/envelope.ts'
import { type BuiltIn, envelopeFor, POLICY_OPERATOR, TestClock } from '../../policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../policy/profiles.ts'
import type { GatewayCaller } from '../caller.ts'
import { SERVER_OPTIONS } from './egress-limits.ts'
import { createEgress, type Egress, type EgressOptions } from './egress-proxy.ts'
import { parseTyped } from './rules.ts'
import { addRule, type RuleChange } from './tokens.ts'
import { dialAddress, type Web } from './web.ts'

export const SANDBOX = 'sbx_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'
/** A public address that only `dial` below connects. */
export const PUBLIC = '93.184.216.34'

/** The addresses of names. Each lookup of a name returns the next list. */
const NAMES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'allowed.example': [[PUBLIC]],
  'a.wild.example': [[PUBLIC]],
  'store.example': [[PUBLIC]],
  'forbidden.example': [[PUBLIC]],
  'metadata.example': [['169.254.169.254']],
  'mapped.example': [['::ffff:10.0.0.1']],
  'mixed.example': [[PUBLIC, '10.0.0.1']],
  'rebind.example': [[PUBLIC], ['127.0.0.1']],
}

/** Real local servers behind names and a public address. */
export interface LocalWeb {
  readonly web: Pick<Web, 'resolve' | 'dial'>
  /** Requests that reached a server of the web: `GET allowed.example /path`. */
  readonly seen: string[]
  readonly heads: IncomingMessage[]
  readonly lookedUp: string[]
  readonly dialled: string[]
  close(): void
}

export interface Scene extends Omit<LocalWeb, 'web' | 'close'> {
  readonly store: InProcessStore
  readonly clock: TestClock
  readonly caller: GatewayCaller
  readonly egress: Egress
  readonly port: number
  allow(
    typed: string,
    options?: { readonly methods?: readonly string[]; readonly sandboxId?: string | null },
  ): Promise<RuleChange>
  close(): Promise<void>
}

/** The rules that the attacks of test/egress/attacks.ts expect. */
export const WAYS_OUT: readonly (readonly [typed: string, methods?: readonly string[]])[] = [
  ['allowed.example'],
  ['allowed.example:80'],
  ['*.wild.example'],
  ['store.example:80/bucket', ['GET']],
  ...['rebind', 'mixed', 'metadata', 'mapped'].flatMap((name): [string][] => [
    [`${name}.example`],
    [`${name}.example:80`],
  ]),
]

export interface SceneOptions {
  readonly profile?: BuiltIn
  readonly egress?: Partial<EgressOptions>
  readonly web?: Partial<Web>
  /** The response of every server of the web. */
  readonly answer?: (request: IncomingMessage, response: ServerResponse) => void
}

export async function openScene(options: SceneOptions = {}): Promise<Scene> {
  const clock = new TestClock()
  const store = inProcessStore(clock)
  const profile = options.profile ?? 'strict'
  const envelope = await envelopeFor(profile, { taskId: null, id: 'policy_sandbox' })
  await createEnvelope(store, envelope, readBuiltInPolicy(profile), { operator: POLICY_OPERATOR })
  const caller: GatewayCaller = {
    operator: POLICY_OPERATOR,
    policyEnvelopeId: envelope.id,
    sandboxId: SANDBOX,
    scope: {},
    credentials: 'broker',
    sentinelFor: () => undefined,
    grantFor: async () => undefined,
  }
  const { web, close, ...witnesses } = await openWeb(options.answer)
  const egress = createEgress({
    store,
    clock,
    log: store.log,
    home: store.home,
    isTokenEndpoint: async (host) => host === 'auth.allowed.example',
    credentials: () => 'broker',
    ...options.egress,
    web: { ...web, ...options.web },
  })
  const proxy = await listening(proxyServer(egress, () => caller))
  return {
    ...witnesses,
    store,
    clock,
    caller,
    egress,
    port: portOf(proxy),
    allow: (typed, { methods, sandboxId = SANDBOX } = {}) =>
      store.write(addRule, {
        ...parseTyped(typed, methods),
        operator: POLICY_OPERATOR,
        approvedBy: POLICY_OPERATOR,
        sandboxId,
        preset: null,
        expiresAtMs: clock.nowMs() + 3600_000,
      }),
    async close() {
      await egress.close()
      proxy.closeAllConnections()
      proxy.close()
      close()
    },
  }
}

export async function openWeb(answer?: SceneOptions['answer']): Promise<LocalWeb> {
  const [seen, heads, lookedUp, dialled]: [string[], IncomingMessage[], string[], string[]] = [[], [], [], []]
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    seen.push(`${request.method} ${request.headers.host} ${request.url}`)
    heads.push(request)
    if (answer !== undefined) return answer(request, response)
    if (request.url === '/redirect') response.writeHead(302, { location: 'http://forbidden.example/' })
    request.resume().once('end', () => response.end('hello'))
  }
  const secure = await listening(createHttpsServer({ ...selfSigned(['127.0.0.1']) }, onRequest))
  const open = await listening(createHttpServer(onRequest))
  const turns = new Map<string, number>()
  return {
    seen,
    heads,
    lookedUp,
    dialled,
    web: {
      async resolve(host) {
        lookedUp.push(host)
        const turn = turns.get(host) ?? 0
        turns.set(host, turn + 1)
        const answers = NAMES[host] ?? (host.endsWith('.allowed.example') ? [[PUBLIC]] : undefined)
        if (answers === undefined) throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' })
        return answers[Math.min(turn, answers.length - 1)]!
      },
      dial(address, port, until) {
        dialled.push(`${address}:${port}`)
        return dialAddress('127.0.0.1', portOf(port === 443 ? secure : open), until)
      },
    },
    close() {
      for (const server of [secure, open]) {
        server.closeAllConnections()
        server.close()
      }
    },
  }
}

/** Serves egress as a gateway's server does. The stream identifies the caller. */
export function proxyServer(egress: Egress, callerOf: (stream: Duplex) => GatewayCaller): Server {
  const server = createHttpServer(SERVER_OPTIONS, (request, response) =>
    egress.handlePlain(callerOf(request.socket), request, response),
  )
  server.on('connect', (request, stream: Duplex, head) =>
    egress.handleConnect(callerOf(stream), request, stream, head),
  )
  server.on('upgrade', (request, stream: Duplex) => egress.handleUpgrade(callerOf(stream), request, stream))
  server.on('clientError', (error, stream) => egress.handleMalformed(callerOf(stream), error, stream))
  return server
}

async function listening<S extends NetServer>(server: S): Promise<S> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

function portOf(server: NetServer): number {
  return (server.address() as AddressInfo).port
}
