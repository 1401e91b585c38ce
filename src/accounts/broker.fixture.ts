/** A broker that uses a simulated host (temporary folders), with logins from a test issuer. */
import type { Issuer, TokenPair } from '../../test/accounts/issuer.ts'
import { machine, type TestMachine } from './accounts.fixture.ts'
import { type BrokerOptions, createBroker, type HostLogins } from './broker.ts'
import type { Probe } from './probe-result.ts'
import { environmentProbe } from './probes/environment.ts'
import { opencodeProbe } from './probes/opencode.ts'
import { PROGRAM_PROBES } from './probes/program-probes.ts'
import { type RefreshTask, refreshLogin } from './refresh/transaction.ts'

export const HOUR_MS = 3_600_000
const PROBES: readonly Probe[] = [...PROGRAM_PROBES, opencodeProbe, environmentProbe]

export interface Format {
  readonly file: string
  readonly write: (pair: TokenPair, expiresAtMs: number) => string
  readonly accessToken: (content: string) => string
  readonly refreshToken: (content: string) => string
}

export const CLAUDE: Format = {
  file: '.claude/.credentials.json',
  write: ({ access_token, refresh_token }, expiresAt) =>
    JSON.stringify({
      claudeAiOauth: {
        accessToken: access_token,
        refreshToken: refresh_token,
        expiresAt,
        rateLimitTier: 'kept',
        scopes: ['user:inference', 'user:profile'],
      },
      mcpOAuth: { kept: true },
    }),
  accessToken: (content) => JSON.parse(content).claudeAiOauth.accessToken,
  refreshToken: (content) => JSON.parse(content).claudeAiOauth.refreshToken,
}

/** Creates a simulated host with logins that all come from that issuer. */
export function machineOf(issuer: Issuer, variables: Readonly<Record<string, string>> = {}): TestMachine {
  const ids = PROGRAM_PROBES.map(({ name }) => name)
  return machine(variables, Object.fromEntries(ids.map((id) => [id, { token_url: issuer.tokenUrl }])))
}

export function brokerOf(
  issuer: Issuer,
  machine: TestMachine,
  more: Partial<BrokerOptions> = {},
): HostLogins {
  const refresh = (task: RefreshTask) => refreshLogin(task, AbortSignal.timeout(10_000))
  return createBroker({
    home: machine.home,
    hostEnvironment: machine.hostEnvironment,
    probes: PROBES,
    refresh,
    overrides: async () => machine.hostEnvironment.overrides,
    operator: 'local-user:tester',
    authorities: [issuer.authority],
    ...more,
  })
}
