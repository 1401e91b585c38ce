/** Opens the connection to a provider with a login: with a newer credential once more, when the first is not accepted. */
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import { brokenEnd, counterpart, failedEnd, garbageEnd, noCredentialEnd, refusedEnd } from '../failures.ts'
import { headersDown } from '../headers.ts'
import { type Held, isNoCredential, type Login } from '../login.ts'
import { UpstreamError } from '../upstream.ts'
import type { SocketCall } from './call.ts'
import { openUpstream, UpstreamSocket } from './upstream-socket.ts'

/** An end is always a failure. */
export type Opened = { readonly upstream: UpstreamSocket } | { readonly end: Ended['end'] }

type Opening = Pick<SocketCall, 'place' | 'limits' | 'wanted' | 'search' | 'headers' | 'until'>

export async function openWithLogin(opening: Opening, login: Login): Promise<Opened> {
  const { place, limits, wanted, search, headers, until } = opening
  let held: Held | undefined
  const ask = () =>
    openUpstream(place.upstreams, limits, { login, held, headers, path: wanted.path('') + search }, until)
  const from = () => counterpart(login.baseUrl, held?.secret)
  try {
    held = await login.credential(until)
    let opened = await ask()
    if (!(opened instanceof UpstreamSocket) && opened.status === 401 && held !== undefined) {
      const newer = await login.renewed(held, until)
      if (newer !== undefined) {
        held = newer
        opened = await ask()
      }
    }
    if (!(opened instanceof UpstreamSocket))
      return { end: refusedEnd(from(), opened.status, opened.headers, opened.body) }
    const { headers } = opened
    if (Object.values(headersDown(headers)).some((value) => from().repeatsCredential(value))) {
      opened.end()
      return { end: garbageEnd(from(), 'its answer repeats the credential that it was called with') }
    }
    return { upstream: opened }
  } catch (error) {
    if (until.aborted) return { end: failedEnd(from(), 'cancelled', 'the call was cancelled', false) }
    if (error instanceof UpstreamError) return { end: brokenEnd(from(), error, undefined) }
    if (!isNoCredential(error)) return { end: { kind: 'thrown', error } }
    return { end: noCredentialEnd(from(), error, false) }
  }
}
