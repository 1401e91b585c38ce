/** Opens the connection to a provider with a login: with a newer credential once more, when the first is not accepted. */
import { Upstream } from '../../../providers/adapters/counterpart.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import { brokenEnd, failedEnd, noCredentialEnd, refusedEnd } from '../failures.ts'
import { type CallCredential, isNoCredential, type Login } from '../login.ts'
import { UpstreamError } from '../upstream.ts'
import type { SocketCall } from './call.ts'
import { openUpstream, UpstreamSocket } from './upstream-socket.ts'

/** An end is always a failure. */
export type Opened = { readonly upstream: UpstreamSocket } | { readonly end: Ended['end'] }

type Opening = Pick<SocketCall, 'place' | 'limits' | 'wanted' | 'search' | 'headers' | 'until'>

export async function openWithLogin(opening: Opening, login: Login): Promise<Opened> {
  const { place, limits, wanted, search, headers, until } = opening
  let held: CallCredential | undefined
  let mask = place.upstreams.maskOf([])
  const ask = (next: CallCredential | undefined) => {
    // An answer may repeat the credential before.
    mask = place.upstreams.maskOf([held?.secret, next?.secret].filter((each) => each !== undefined))
    held = next
    const path = wanted.path('') + search
    const { report, upstreams } = place
    return openUpstream(upstreams, limits, { login, held, mask, headers, path, report }, until)
  }
  const from = () => new Upstream(login.baseUrl, mask)
  try {
    let opened = await ask(await login.credential(until))
    if (!(opened instanceof UpstreamSocket) && opened.status === 401 && held !== undefined) {
      const newer = await login.renewed(held, until)
      if (newer !== undefined) opened = await ask(newer)
    }
    if (!(opened instanceof UpstreamSocket))
      return { end: refusedEnd(from(), opened.status, opened.headers, opened.body) }
    return { upstream: opened }
  } catch (error) {
    if (until.aborted) return { end: failedEnd(from(), 'cancelled', 'the call was cancelled', false) }
    if (error instanceof UpstreamError) return { end: brokenEnd(from(), error, undefined) }
    if (!isNoCredential(error)) return { end: { kind: 'thrown', error } }
    return { end: noCredentialEnd(from(), error, false) }
  }
}
