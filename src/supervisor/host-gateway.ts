/** The gateway of a home: combines models, the web and GitHub in one server, with the logins of this host. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Account, Broker } from '../accounts/account.ts'
import { API_KEYS } from '../accounts/api-keys.ts'
import type { HostLogins } from '../accounts/broker.ts'
import { openHostLogins } from '../accounts/open-host-logins.ts'
import { ACCOUNTS_FILE } from '../accounts/overrides.ts'
import { OverridesFile } from '../accounts/overrides-file.ts'
import { openSentinels, type Sentinels } from '../accounts/sentinels.ts'
import { tokenHosts } from '../accounts/token-hosts.ts'
import type { GatewayCaller } from '../gateway/caller.ts'
import { evaluateEgress } from '../gateway/egress/decide-egress.ts'
import { createEgress } from '../gateway/egress/egress-proxy.ts'
import { homeReader } from '../gateway/egress/rule-reader.ts'
import { HTTPS_PORT } from '../gateway/egress/rules.ts'
import { githubRoute } from '../gateway/github/github-route.ts'
import { createGateway, type Gateway } from '../gateway/server.ts'
import { answerToken, isTokenRoute } from '../gateway/token-route.ts'
import type { Clock } from '../lib/clock.ts'
import { PINS_VARIABLE } from '../lib/host-programs.ts'
import { readConfigFile } from '../providers/config-file.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { SandboxRecord } from '../sandboxes/lifecycle/sandbox-record.ts'
import type { ManagerLogger } from '../sandboxes/manager/manager-options.ts'
import { resolveSecret } from '../secrets/resolve.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'

export interface HostGatewayOptions {
  readonly store: Store
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly home: Home
  readonly environment: NodeJS.ProcessEnv
  /** The user's home folder. */
  readonly userHome: string
  readonly operator: string
  readonly logger: ManagerLogger
}

/** The fields of a sandbox that the gateway uses. */
type GatewaySandbox = Pick<SandboxRecord, 'id' | 'operator' | 'policy_envelope_id'>

export interface HostGateway {
  readonly gateway: Gateway
  readonly broker: HostLogins
  readonly sentinels: Sentinels
  /**
   * Receives the API keys of the user's environment from a command, because this process does not inherit them. They
   * replace the keys of the command before. Craik holds them only in memory.
   */
  readonly setApiKeys: (keys: Readonly<Record<string, string>>, until: AbortSignal) => Promise<void>
  /** Returns the accounts of the last probe. */
  readonly accounts: () => readonly Account[]
  /** Returns whether programs in a sandbox may connect to a host. Evaluates policy and writes nothing. */
  readonly mayReach: (sandbox: GatewaySandbox, host: string) => Promise<boolean>
  /** Returns the placeholder credential that a sandbox may present for an account of the last probe. */
  readonly sentinel: (sandboxId: string, accountId: string) => string | undefined
  close(): Promise<void>
}

export async function openHostGateway(options: HostGatewayOptions): Promise<HostGateway> {
  const { store, log, clock, home, environment, userHome, operator, logger } = options
  const overrides = new OverridesFile(home.config, () => readConfigFile(home.config, ACCOUNTS_FILE))
  // If the file cannot be used, the caller gets the error now.
  let lastOverrides = await overrides.current()
  const loginEnvironment = { ...environment }
  // A command can change the pinned programs while this process runs, so the variable is read each time.
  Object.defineProperty(loginEnvironment, PINS_VARIABLE, {
    get: () => environment[PINS_VARIABLE],
    enumerable: true,
  })
  const logins = openHostLogins({
    home,
    userHome,
    environment: loginEnvironment,
    operator,
    log,
    overrides: () => overrides.current(),
    store: async () => store,
  })
  const sentinels = openSentinels(home)
  let lastAccounts: readonly Account[] = []
  const broker: HostLogins = {
    ...toBroker(logins),
    async accounts(until) {
      lastAccounts = await logins.accounts(until)
      return lastAccounts
    },
    problems: (until) => logins.problems(until),
    listProbed: () => logins.listProbed(),
    forward: (accountId, until) => logins.forward(accountId, until),
  }
  const report = (error: unknown) =>
    logger('error', `the gateway: ${error instanceof Error ? error.message : String(error)}`)
  const egress = createEgress({
    store,
    log,
    clock,
    home,
    async isTokenEndpoint(host) {
      // If the file becomes unusable, the hosts of its last usable version stay blocked.
      lastOverrides = await overrides.current().catch(() => lastOverrides)
      return tokenHosts(lastOverrides)(host)
    },
    credentials: ({ credentials }) => credentials,
  })
  const github = githubRoute({ store, log, clock, broker })
  const otherRoute = (caller: GatewayCaller, request: IncomingMessage, response: ServerResponse) => {
    if (isTokenRoute(request)) {
      answerToken(caller, request, response, (sandboxId) => {
        const account = lastAccounts.find(({ family, kind }) => family === 'openai' && kind === 'oauth')
        return account && sentinels.for(sandboxId, account)
      })
      return true
    }
    if (
      !github.isFor(
        request,
        lastAccounts.find(({ family }) => family === 'github'),
      )
    )
      return false
    void github.handle(caller, request, response).catch((error) => {
      report(error)
      response.destroy()
    })
    return true
  }
  const deps = {
    store,
    log,
    home,
    clock,
    environment,
    credential: (name: string, until: AbortSignal) => resolveSecret(store, home, environment, name, until),
  }
  const gateway = createGateway({ deps: deps, broker, report, egress, otherRoute })
  // Sandboxes that kept running while the supervisor restarted get these accounts with their next command.
  void broker.accounts(AbortSignal.timeout(FIRST_PROBE_MS)).catch(() => {})
  const reader = homeReader(home)
  return {
    async mayReach({ id, operator, policy_envelope_id }, host) {
      const caller = { operator, sandboxId: id, policyEnvelopeId: policy_envelope_id, scope: {} }
      const requested = { host, form: 'name', port: HTTPS_PORT, protocol: 'connect' } as const
      const verdict = await store.read((tables) =>
        evaluateEgress({ tables, clock, reader }, { caller, asked: requested, isTokenEndpoint: false }),
      )
      return verdict.effect === 'allow'
    },
    gateway: gateway,
    broker,
    sentinels,
    accounts: () => lastAccounts,
    async setApiKeys(keys, until) {
      for (const { name } of API_KEYS) {
        const value = keys[name] ?? environment[name]
        if (value === undefined) delete loginEnvironment[name]
        else loginEnvironment[name] = value
      }
      await broker.accounts(until)
    },
    sentinel(sandboxId, accountId) {
      const account = lastAccounts.find(({ id }) => id === accountId)
      return account && sentinels.for(sandboxId, account).presented
    },
    async close() {
      await gateway.close()
      await egress.close()
      await github.close()
    },
  }
}

const FIRST_PROBE_MS = 15_000

function toBroker(logins: HostLogins): Pick<Broker, 'credential' | 'renewAfterRefusal'> {
  return {
    credential: (accountId, until) => logins.credential(accountId, until),
    renewAfterRefusal: (accountId, generation, until) =>
      logins.renewAfterRefusal(accountId, generation, until),
  }
}
