/** The credential that a client presents. It can be absent, or the client's own sentinel. Anything else is refused. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Account } from '../../accounts/account.ts'
import { isSentinel } from '../../accounts/sentinels.ts'
import { isSecretKey } from '../../receipts/redaction/redact.ts'
import type { GatewayCaller } from '../caller.ts'

/** Query parameters that contain a key. They are never forwarded. */
const KEY_PARAMETERS = new Set(['key', 'api_key', 'apikey', 'access_token', 'oauth_token', 'token', 'auth'])

/**
 * The query parameters that clients send and that do not change the form of a response. Others are dropped: with
 * Google's `fields`, a client makes a provider return a partial response, which would count as the provider's failure.
 */
const PASSED_ON: Readonly<Record<string, RegExp>> = {
  alt: /^(?:sse|json)$/,
  beta: /^(?:true|false)$/,
  client_version: /^[\w.+-]{1,64}$/,
}

export interface Presented {
  readonly values: readonly string[]
  /** The forwarded part of the query, with its question mark, or an empty string. */
  readonly search: string
}

export function readPresented(headers: IncomingHttpHeaders, query: URLSearchParams): Presented {
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

/** Returns the login whose sentinel was presented. `undefined` when any value is not that sentinel. */
export function findAccount(
  values: readonly string[],
  accounts: readonly Account[],
  caller: Pick<GatewayCaller, 'sentinelFor'>,
): Account | undefined {
  return accounts.find(({ id }) => {
    const sentinel = caller.sentinelFor(id)
    return sentinel !== undefined && values.every((value) => isSentinel(value, sentinel))
  })
}
