/** What a client presents as its credential: it may be nothing, or its own sentinel; anything else is refused. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Account } from '../../accounts/account.ts'
import { isSentinel } from '../../accounts/sentinels.ts'
import { isSecretKey } from '../../receipts/redaction/redact.ts'
import type { GatewayCaller } from '../caller.ts'

/** Names of query parameters that hold a key; these never go on. */
const KEY_PARAMETERS = new Set(['key', 'api_key', 'apikey', 'access_token', 'oauth_token', 'token', 'auth'])

/**
 * The query parameters that clients send and that do not change the form of an answer. Others are dropped: with Google's
 * `fields` a client makes a provider answer with less than an answer, which would count as the provider's failure.
 */
const PASSED_ON: Readonly<Record<string, RegExp>> = {
  alt: /^(?:sse|json)$/,
  beta: /^(?:true|false)$/,
  client_version: /^[\w.+-]{1,64}$/,
}

export interface Presented {
  readonly values: readonly string[]
  /** What is passed on of the query, with its question mark; empty: nothing. */
  readonly search: string
}

export function presentedIn(headers: IncomingHttpHeaders, query: URLSearchParams): Presented {
  const bearer =
    /^(?:bearer|basic|token)\s+(.*)$/i.exec(headers.authorization ?? '')?.[1] ?? headers.authorization
  const fromHeaders = [bearer, headers['x-api-key'], headers['x-goog-api-key'], headers['api-key']].flat()
  const fromQuery: string[] = []
  const rest = new URLSearchParams()
  for (const [name, value] of query)
    if (KEY_PARAMETERS.has(name.toLowerCase()) || isSecretKey(name)) fromQuery.push(value)
    else if (Object.hasOwn(PASSED_ON, name) && PASSED_ON[name]!.test(value)) rest.set(name, value)
  const search = rest.toString()
  return {
    values: [...fromHeaders, ...fromQuery]
      .map((value) => value?.trim())
      .filter((value): value is string => value !== undefined && value !== ''),
    search: search === '' ? '' : `?${search}`,
  }
}

/** The login that was meant: the one whose sentinel this is. Undefined: some value is nobody's, or another one's. */
export function meantBy(
  values: readonly string[],
  accounts: readonly Account[],
  caller: Pick<GatewayCaller, 'sentinelFor'>,
): Account | undefined {
  return accounts.find(({ id }) => {
    const sentinel = caller.sentinelFor(id)
    return sentinel !== undefined && values.every((value) => isSentinel(value, sentinel))
  })
}
