/** Sends an admitted call: the credential is read only now, and wiped as soon as the answer is in. */
import { CraikError, type ErrorCode } from '../../errors.ts'
import type { Adapter, Failure } from '../adapters/adapter.ts'
import type { ModelRequest } from '../conversation.ts'
import { type Exchange, exchange, notSent } from './exchange.ts'
import type { ModelHop } from './hop.ts'
import type { Route } from './route.ts'

const CONNECT_TIMEOUT_MS = 10_000
/** A local server may have to load the model first, a hosted one to think. */
const HEADERS_TIMEOUT_MS = 120_000
const IDLE_TIMEOUT_MS = 120_000

/** Errors that say that there is no such secret, or no value behind its name. */
const NO_SECRET: readonly ErrorCode[] = ['not_found', 'unavailable', 'usage', 'key_exposed', 'key_unreadable']

/** `encoded` is the request's body where it is known already. */
export async function send(
  { place, call }: Pick<ModelHop, 'place' | 'call'>,
  { secretName, baseUrl, loopbackOnly }: Route,
  adapter: Adapter,
  request: ModelRequest,
  encoded: string | undefined,
): Promise<Exchange> {
  let body: string
  let credential: Buffer | undefined
  try {
    body = encoded ?? adapter.encode(request)
    if (secretName !== undefined) credential = await place.credential(secretName, call.signal)
  } catch (error) {
    return notSent(credentialEnd(error))
  }
  try {
    const endpoint = {
      baseUrl: baseUrl ?? '',
      loopbackOnly,
      credential,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      headersTimeoutMs: HEADERS_TIMEOUT_MS,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    }
    return await exchange(adapter, endpoint, request, body, call.signal, call.onText)
  } finally {
    credential?.fill(0)
  }
}

function credentialEnd(error: unknown): Exchange['end'] {
  const unsent = { status: undefined, retryAfterMs: undefined, sent: false, refused: false }
  const failed = (failure: Failure['failure'], { message, hint }: CraikError): Exchange['end'] => ({
    kind: 'failed',
    failure: { failure, ...unsent },
    message,
    hint,
  })
  if (!(error instanceof CraikError)) return { kind: 'thrown', error }
  if (error.code === 'interrupted') return failed('cancelled', error)
  return NO_SECRET.includes(error.code) ? failed('unauthorized', error) : { kind: 'thrown', error }
}
