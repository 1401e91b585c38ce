/** The login of a request to a provider: the one that the client presented, or the first that supports the dialect. */
import type { Account, AccountFamily, Broker, Credential } from '../../accounts/account.ts'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { checkBaseUrl } from '../../providers/base-url.ts'
import type { Route } from '../../providers/dispatch/route.ts'
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import { CATALOGUE } from '../../providers/provider-catalogue.ts'
import type { ProviderRecord } from '../../providers/provider-record.ts'
import type { GatewayCaller } from '../caller.ts'
import { sameAddress } from '../config-fault.ts'
import { findAccount } from './client-credential.ts'
import type { GatewayDialect } from './dialects/dialect.ts'

/** The destination of a call and its credential. */
export interface Login {
  /** The name in policy and receipts. `undefined` when this provider gets no credential. */
  readonly ref: string | undefined
  readonly account: Account | undefined
  readonly baseUrl: string
  readonly billing: Route['billing']
  credential(until: AbortSignal): Promise<CallCredential | undefined>
  /** Called after a 401. Returns a newer credential if there is one. */
  renew(refused: CallCredential, until: AbortSignal): Promise<CallCredential | undefined>
}

export interface CallCredential extends Pick<Credential, 'headers' | 'mergedHeaders' | 'generation'> {
  /** The value without its scheme, which must not appear in a response. */
  readonly secret: string | undefined
}

export interface LoginDeps {
  readonly broker: Pick<Broker, 'credential' | 'renewAfterRefusal'>
  readonly credential: ProviderDeps['credential']
}

/** Returns the logins of this machine for a provider's record, in order of preference. */
export function loginsFor(
  record: ProviderRecord,
  dialect: GatewayDialect,
  accounts: readonly Account[],
  prefersLogin: boolean,
): readonly Account[] {
  const family = familyOf(record)
  const fitting = accounts.filter((account) => dialect.usedBy(account) && account.family === family)
  if (family !== 'openai') return fitting
  // An API key works for any program, a ChatGPT login only for Codex.
  const first = prefersLogin ? 'oauth' : 'api_key'
  return [...fitting.filter(({ kind }) => kind === first), ...fitting.filter(({ kind }) => kind !== first)]
}

/** Returns whether the provider is called with a login of this machine, instead of its own secret or none. */
export function takesLogin(record: ProviderRecord): boolean {
  return familyOf(record) !== undefined
}

const COMPATIBLE = [
  { id: 'provider_openrouter', family: 'openrouter' },
  { id: 'provider_kimi', family: 'kimi' },
] as const

function ownAddress(providerId: string): string | undefined {
  return CATALOGUE.find(({ id }) => id === providerId)?.metadata.base_url
}

/** A record with another base URL uses its own secret, and never a login of its family. */
function familyOf({ provider, metadata }: ProviderRecord): AccountFamily | undefined {
  const compatible = COMPATIBLE.find(({ id }) => ownAddress(id) === metadata.base_url)
  if (provider === 'chat_completions') return compatible?.family
  if (provider !== 'anthropic' && provider !== 'openai' && provider !== 'gemini') return undefined
  const own = CATALOGUE.find((each) => each.provider === provider)?.metadata.base_url
  return metadata.base_url === undefined || metadata.base_url === own ? provider : undefined
}

/**
 * Why a request is refused before any decision: it presents a foreign credential, or its sandbox has no credentials.
 */
export type LoginRefusal = 'not_own_credential' | 'no_credentials'

export function chooseLogin(
  deps: LoginDeps,
  caller: GatewayCaller,
  route: Route,
  dialect: GatewayDialect,
  logins: readonly Account[],
  presented: readonly string[],
): Login | LoginRefusal {
  if (caller.credentials === 'none' && (logins.length > 0 || route.secretName !== undefined))
    return 'no_credentials'
  const [first] = logins
  if (first === undefined) return secretLogin(deps, caller, route, dialect, presented) ?? 'not_own_credential'
  const meant = presented.length === 0 ? first : findAccount(presented, logins, caller)
  // A sandbox with real credentials presents them. The gateway replaces them with the newest ones anyway.
  const account = meant ?? (caller.credentials === 'forward' ? first : undefined)
  return account === undefined ? 'not_own_credential' : accountLogin(deps, account)
}

function accountLogin({ broker }: LoginDeps, account: Account): Login {
  const wrong = checkBaseUrl(account.baseUrl, { local: false })
  if (wrong !== undefined)
    throw new CraikError('invalid_config', `the base URL of the login ${account.id} ${wrong}`, {
      hint: 'fix config/accounts.yaml, then list the logins:  craik accounts',
    })
  return {
    ref: account.id,
    account,
    baseUrl: account.baseUrl,
    billing: account.billing,
    credential: async (until) =>
      toCallCredential(sameAddress(account, await broker.credential(account.id, until))),
    async renew({ generation }, until) {
      const newer = await broker.renewAfterRefusal(account.id, generation, until)
      return newer && toCallCredential(sameAddress(account, newer))
    },
  }
}

/** Uses the secret that a record names. If it names none, the client's credential is dropped. */
function secretLogin(
  { credential }: LoginDeps,
  caller: GatewayCaller,
  { secretName, baseUrl = '', billing }: Route,
  dialect: GatewayDialect,
  presented: readonly string[],
): Login | undefined {
  const none = async () => undefined
  const login = { ref: secretName, account: undefined, baseUrl, billing, renew: none }
  if (secretName === undefined) return { ...login, credential: none }
  const own = { id: `secret/${secretName}` } as Account
  const isOwn = presented.length === 0 || findAccount(presented, [own], caller) !== undefined
  if (!isOwn && caller.credentials !== 'forward') return undefined
  return {
    ...login,
    async credential(until) {
      const buffer = await credential(secretName, until)
      const value = buffer.toString('latin1').replace(/\r?\n$/, '')
      buffer.fill(0)
      if (!/^[\x21-\x7e]{1,16384}$/.test(value))
        throw new CraikError(
          'unavailable',
          `the secret ${secretName} is not a key: it is empty, too long, or contains spaces or control characters`,
          { hint: `store the key again:  craik secret set ${secretName}` },
        )
      return { headers: keyHeader(dialect, value), mergedHeaders: {}, generation: '', secret: value }
    },
  }
}

function keyHeader({ wire }: GatewayDialect, value: string): Record<string, string> {
  if (wire === 'anthropic_messages') return { 'x-api-key': value }
  return wire === 'gemini' ? { 'x-goog-api-key': value } : { authorization: `Bearer ${value}` }
}

function toCallCredential({ headers, mergedHeaders, generation }: Credential): CallCredential {
  const values = ['authorization', 'x-api-key', 'x-goog-api-key'].map((name) => headers[name])
  const value = values.find((each) => each !== undefined)
  return { headers, mergedHeaders, generation, secret: value?.replace(/^\S+\s+/, '') }
}

/** Errors for a missing login or secret, or for a secret without a value. */
const NO_CREDENTIAL: readonly ErrorCode[] = [
  'not_found',
  'unavailable',
  'usage',
  'key_exposed',
  'key_unreadable',
  'login_required',
  'unauthorized',
]

/** Returns whether the login may still be valid, because only its issuer was unreachable. */
export function isNotRenewed({ details }: CraikError): boolean {
  return details?.renewal === 'failed'
}

export function isNoCredential(error: unknown): error is CraikError {
  return error instanceof CraikError && NO_CREDENTIAL.includes(error.code)
}

/** Returns the credential, or the error that explains why none exists. */
export async function currentCredential(
  login: Login,
  until: AbortSignal,
): Promise<CallCredential | CraikError | undefined> {
  try {
    return await login.credential(until)
  } catch (error) {
    if (isNoCredential(error)) return error
    throw error
  }
}
