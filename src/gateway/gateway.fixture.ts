/** A gateway in this process, logins in memory, and callers that connect on loopback. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { selfSigned } from '../../test/wire/certificate.ts'
import type { SeenRequest } from '../../test/wire/wire-server.ts'
import type { Account, Broker, Credential } from '../accounts/account.ts'
import { CraikError } from '../errors.ts'
import { createGrant } from '../policy/grants.ts'
import { POLICY_OPERATOR } from '../policy/policy.fixture.ts'
import { type CallScene, callScene } from '../providers/dispatch.fixture.ts'
import type { GatewayCaller } from './caller.ts'
import type { GatewayLimits } from './gateway-limits.ts'
import { createGateway, type EgressHandler, type Gateway } from './server.ts'

export const CERTIFICATE = selfSigned(['127.0.0.1'], ['api.openai.com', 'api.anthropic.com'])
export const REAL_KEY = 'the-real-key-that-stays-outside-7c21d8'
export const NEW_KEY = 'the-next-key-that-stays-outside-99ab00'

/** Logins with values that a test can change. */
export class MemoryBroker implements Broker {
  readonly list: Account[]
  value = REAL_KEY
  newer: string | undefined
  refusals = 0
  /** The issuer is unreachable. */
  isNotRenewed = false

  constructor(...list: Account[]) {
    this.list = list
  }

  async accounts(): Promise<readonly Account[]> {
    return this.list
  }

  async credential(accountId: string): Promise<Credential> {
    const account = this.list.find(({ id }) => id === accountId)
    if (account === undefined) throw new CraikError('unavailable', `the login ${accountId} is gone`)
    if (this.isNotRenewed)
      throw new CraikError('unavailable', `the login ${accountId} has expired`, {
        details: { renewal: 'failed' },
      })
    return this.#credentialOf(account)
  }

  async renewAfterRefusal(accountId: string, generation: string): Promise<Credential | undefined> {
    this.refusals++
    if (this.newer === undefined || generation !== this.value) return undefined
    this.value = this.newer
    return this.credential(accountId)
  }

  #credentialOf({ id, baseUrl, family, kind }: Account): Credential {
    const isKey = kind === 'api_key'
    const name =
      isKey && family === 'anthropic' ? 'x-api-key' : isKey && family === 'gemini' ? 'x-goog-api-key' : ''
    return {
      accountId: id,
      baseUrl,
      headers: name === '' ? { authorization: `Bearer ${this.value}` } : { [name]: this.value },
      mergedHeaders: family === 'anthropic' && !isKey ? { 'anthropic-beta': 'oauth-2025-04-20' } : {},
      generation: this.value,
    }
  }
}

export function account(changes: Partial<Account> & Pick<Account, 'baseUrl'>): Account {
  return {
    id: 'secret/ANTHROPIC_API_KEY',
    family: 'anthropic',
    kind: 'api_key',
    source: 'memory',
    expiresAtMs: undefined,
    who: undefined,
    billing: 'metered',
    ...changes,
  }
}

export const sentinelOf = (sandboxId: string, accountId: string) => `sentinel-${sandboxId}-${accountId}`

export interface GatewayScene extends AsyncDisposable {
  readonly at: CallScene
  readonly gateway: Gateway
  readonly faults: unknown[]
  /** Returns the port on which a sandbox reaches the gateway. */
  port(sandboxId?: string): Promise<number>
  ask(path: string, body: unknown, init?: RequestInit & { sandboxId?: string }): Promise<Response>
  dial(sandboxId?: string): Promise<Socket>
  /** Both counts are zero when every begin has its end and no hold remains. */
  readOpen(): Promise<{ readonly open: number; readonly holds: number }>
}

export async function gatewayScene(options: {
  readonly broker: Broker
  readonly limits?: Partial<GatewayLimits>
  readonly egress?: EgressHandler
  /** Another module for the scan threads. */
  readonly scanWorker?: URL
  readonly keys?: Readonly<Record<string, string>>
  readonly dialled?: (origin: string) => { host: string; port: number }
  readonly grants?: readonly string[]
  readonly credentials?: GatewayCaller['credentials']
  /** Replaces the default sentinels, which name their owner. */
  readonly sentinelFor?: (sandboxId: string, accountId: string) => string | undefined
}): Promise<GatewayScene> {
  const at = await callScene(options.keys ?? {})
  const faults: unknown[] = []
  const gateway = createGateway({
    deps: at.place,
    broker: options.broker,
    report: (error) => faults.push(error),
    authorities: [CERTIFICATE.cert],
    ...(options.limits && { limits: options.limits }),
    ...(options.egress && { egress: options.egress }),
    ...(options.dialled && { dialled: options.dialled }),
    ...(options.scanWorker && { scanWorker: options.scanWorker }),
  })
  const servers = new Map<string, Server>()
  const port = async (sandboxId = 'sandbox-1') => {
    let server = servers.get(sandboxId)
    if (server === undefined) {
      const { grants, credentials, sentinelFor = sentinelOf } = options
      const caller: GatewayCaller = {
        ...callerOf(at, sandboxId, grants, credentials),
        sentinelFor: (accountId) => sentinelFor(sandboxId, accountId),
      }
      server = createServer({ allowHalfOpen: true }, (socket) => gateway.handle(socket, caller))
      servers.set(sandboxId, server)
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
    }
    return (server.address() as AddressInfo).port
  }
  return {
    at,
    gateway,
    faults,
    port,
    async ask(path, body, { sandboxId, ...init } = {}) {
      return fetch(`http://127.0.0.1:${await port(sandboxId)}${path}`, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
        headers: { 'content-type': 'application/json', ...init.headers },
      })
    },
    async dial(sandboxId) {
      const socket = connect(await port(sandboxId), '127.0.0.1')
      await once(socket, 'connect')
      return socket.on('error', () => {})
    },
    async readOpen() {
      const holds = at.store.database.prepare('SELECT count(*) AS n FROM holds').get() as { n: number }
      return { open: (await at.store.tables.openReceipts.list()).length, holds: holds.n }
    },
    async [Symbol.asyncDispose]() {
      await gateway.close()
      for (const server of servers.values()) server.close()
      await at[Symbol.asyncDispose]()
    },
  }
}

/** One grant per sandbox and provider, as the supervisor creates them. */
function callerOf(
  at: CallScene,
  sandboxId: string,
  granted: readonly string[] | undefined,
  provided: GatewayCaller['credentials'] | undefined,
): Omit<GatewayCaller, 'sentinelFor'> {
  const mode = provided ?? 'broker'
  const grants = new Map<string, Promise<string>>()
  return {
    operator: POLICY_OPERATOR,
    policyEnvelopeId: 'policy_team',
    sandboxId,
    scope: {},
    credentials: mode,
    async grantFor(capability, operation, target) {
      if (granted !== undefined && !granted.includes(target)) return undefined
      const grant =
        grants.get(target) ??
        createGrant(at.store, {
          capability,
          subject: POLICY_OPERATOR,
          scope: { sandbox_id: sandboxId },
          target: { ref: target },
          operations: [operation],
          max_uses: null,
          approved_by: POLICY_OPERATOR,
        }).then(({ grant }) => grant.id)
      grants.set(target, grant)
      return grant
    },
  }
}

/** Returns whether any part of a request contains a sentinel, which must never leave this machine. */
export function holdsSentinel({ path, headers, rawBody }: SeenRequest): boolean {
  return [path, JSON.stringify(headers), rawBody].some((text) => text.includes('sentinel-'))
}
