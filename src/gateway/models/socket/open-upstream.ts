/**
 * Opens the connection to a provider with a login. Retries once with a newer credential when the first one is rejected.
 */
import { Upstream } from '../../../providers/adapters/counterpart.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import {
  describeBrokenEnd,
  describeFailedEnd,
  describeRefusedEnd,
  noCredentialEnd,
} from '../call-failures.ts'
import { type CallCredential, isNoCredential, type Login } from '../choose-login.ts'
import { UpstreamError } from '../upstream.ts'
import type { SocketCall } from './socket-call.ts'
import { openUpstream, UpstreamSocket } from './upstream-socket.ts'

/** `end` is always a failure. */
export type Opened = { readonly upstream: UpstreamSocket } | { readonly end: Ended['end'] }

type Opening = Pick<SocketCall, 'deps' | 'limits' | 'wanted' | 'search' | 'headers' | 'until'>

export async function openWithLogin(opening: Opening, login: Login): Promise<Opened> {
  const { deps, limits, wanted, search, headers, until } = opening
  let held: CallCredential | undefined
  let mask = deps.upstreams.maskOf([])
  const ask = (next: CallCredential | undefined) => {
    // A response may repeat the previous credential.
    mask = deps.upstreams.maskOf([held?.secret, next?.secret].filter((each) => each !== undefined))
    held = next
    const path = wanted.path('') + search
    const { report, upstreams } = deps
    return openUpstream(upstreams, limits, { login, held, mask, headers, path, report }, until)
  }
  const from = () => new Upstream(login.baseUrl, mask)
  try {
    let opened = await ask(await login.credential(until))
    if (!(opened instanceof UpstreamSocket) && opened.status === 401 && held !== undefined) {
      const newer = await login.renew(held, until)
      if (newer !== undefined) opened = await ask(newer)
    }
    if (!(opened instanceof UpstreamSocket))
      return { end: describeRefusedEnd(from(), opened.status, opened.headers, opened.body) }
    return { upstream: opened }
  } catch (error) {
    if (until.aborted) return { end: describeFailedEnd(from(), 'cancelled', 'the call was cancelled', false) }
    if (error instanceof UpstreamError) return { end: describeBrokenEnd(from(), error, undefined) }
    if (!isNoCredential(error)) return { end: { kind: 'thrown', error } }
    return { end: noCredentialEnd(from(), error, false) }
  }
}
