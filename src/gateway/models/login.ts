/** Which login a request to a provider uses: the one that was meant, or the first that speaks the dialect. */
import type { Account, AccountFamily, Broker, Credential } from '../../accounts/account.ts'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { checkBaseUrl } from '../../providers/base-url.ts'
import { CATALOGUE } from '../../providers/catalogue.ts'
import type { Route } from '../../providers/dispatch/route.ts'
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import type { ProviderRecord } from '../../providers/record.ts'
import type { GatewayCaller } from '../caller.ts'
import { sameAddress } from '../config-fault.ts'
import type { Dialect } from './dialects/dialect.ts'
import { meantBy } from './presented.ts'

/** Where a call goes and what goes into it. */
export interface Login {
  /** As policy and receipts name it; undefined: nothing is presented to this provider. */
  readonly ref: string | undefined
  readonly account: Account | undefined
  readonly baseUrl: string
  readonly billing: Route['billing']
  credential(until: AbortSignal): Promise<CallCredential | undefined>
  /** After a 401: a newer one, if there is one to be had. */
  renewed(refused: CallCredential, until: AbortSignal): Promise<CallCredential | undefined>
}

export interface CallCredential extends Pick<Credential, 'headers' | 'mergedHeaders' | 'generation'> {
  /** What must not come back: the value without its scheme. */
  readonly secret: string | undefined
}

export interface LoginDeps {
  readonly broker: Pick<Broker, 'credential' | 'refused'>
  readonly credential: ProviderDeps['credential']
}

/** The logins of this machine that a provider's record stands for, in order of preference. */
export function loginsFor(
  record: ProviderRecord,
  dialect: Dialect,
  accounts: readonly Account[],
  prefersLogin: boolean,
): readonly Account[] {
  const family = familyOf(record)
  const fitting = accounts.filter((account) => dialect.spokenBy(account) && account.family === family)
  if (family !== 'openai') return fitting
  // A key is good for what any program asks, a ChatGPT login for what Codex does.
  const first = prefersLogin ? 'oauth' : 'api_key'
  return [...fitting.filter(({ kind }) => kind === first), ...fitting.filter(({ kind }) => kind !== first)]
}

/** Whether it is called with a login of this machine, rather than with a secret of its own or with nothing. */
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

/** A record with an address of its own takes its own secret, and never a login that was made for its family. */
function familyOf({ provider, metadata }: ProviderRecord): AccountFamily | undefined {
  const compatible = COMPATIBLE.find(({ id }) => ownAddress(id) === metadata.base_url)
  if (provider === 'chat_completions') return compatible?.family
  if (provider !== 'anthropic' && provider !== 'openai' && provider !== 'gemini') return undefined
  const own = CATALOGUE.find((each) => each.provider === provider)?.metadata.base_url
  return metadata.base_url === undefined || metadata.base_url === own ? provider : undefined
}

/** Why a request is refused before anything is decided: it presents what is not its own, or is to have no login. */
export type LoginRefusal = 'not_own_credential' | 'no_credentials'

export function chooseLogin(
  place: LoginDeps,
  caller: GatewayCaller,
  route: Route,
  dialect: Dialect,
  logins: readonly Account[],
  presented: readonly string[],
): Login | LoginRefusal {
  if (caller.credentials === 'none' && (logins.length > 0 || route.secretName !== undefined))
    return 'no_credentials'
  const [first] = logins
  if (first === undefined)
    return secretLogin(place, caller, route, dialect, presented) ?? 'not_own_credential'
  const meant = presented.length === 0 ? first : meantBy(presented, logins, caller)
  // Where the real ones are inside they are presented; what goes out is the newest all the same.
  const account = meant ?? (caller.credentials === 'forward' ? first : undefined)
  return account === undefined ? 'not_own_credential' : accountLogin(place, account)
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
    credential: async (until) => held(sameAddress(account, await broker.credential(account.id, until))),
    async renewed({ generation }, until) {
      const newer = await broker.refused(account.id, generation, until)
      return newer && held(sameAddress(account, newer))
    },
  }
}

/** The secret that a record names, or nothing at all: then what a client sends along is only dropped. */
function secretLogin(
  { credential }: LoginDeps,
  caller: GatewayCaller,
  { secretName, baseUrl = '', billing }: Route,
  dialect: Dialect,
  presented: readonly string[],
): Login | undefined {
  const none = async () => undefined
  const login = { ref: secretName, account: undefined, baseUrl, billing, renewed: none }
  if (secretName === undefined) return { ...login, credential: none }
  const own = { id: `secret/${secretName}` } as Account
  const isOwn = presented.length === 0 || meantBy(presented, [own], caller) !== undefined
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
          `the secret ${secretName} is not a key: it contains spaces or control characters`,
        )
      return { headers: keyHeader(dialect, value), mergedHeaders: {}, generation: '', secret: value }
    },
  }
}

function keyHeader({ wire }: Dialect, value: string): Record<string, string> {
  if (wire === 'anthropic_messages') return { 'x-api-key': value }
  return wire === 'gemini' ? { 'x-goog-api-key': value } : { authorization: `Bearer ${value}` }
}

function held({ headers, mergedHeaders, generation }: Credential): CallCredential {
  const values = ['authorization', 'x-api-key', 'x-goog-api-key'].map((name) => headers[name])
  const value = values.find((each) => each !== undefined)
  return { headers, mergedHeaders, generation, secret: value?.replace(/^\S+\s+/, '') }
}

/** Errors that say that there is no such login or secret, or no value behind its name. */
const NO_CREDENTIAL: readonly ErrorCode[] = [
  'not_found',
  'unavailable',
  'usage',
  'key_exposed',
  'key_unreadable',
  'login_required',
  'unauthorized',
]

/** The login may be as good as ever: who renews it was not to be had. */
export function isNotRenewed({ details }: CraikError): boolean {
  return details?.renewal === 'failed'
}

export function isNoCredential(error: unknown): error is CraikError {
  return error instanceof CraikError && NO_CREDENTIAL.includes(error.code)
}

/** The credential, or why there is none. */
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
