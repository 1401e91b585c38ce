/** Sends one request to an engine, with a deadline. Its errors distinguish a silent engine from one that answered. */
import { CraikError } from '../../../../errors.ts'

/** For short queries. Callers that create or build something pass a longer deadline. */
const DEADLINE_MS = 30_000
const MAX_SAID = 300
/** The first request, which Craik makes for itself. */
export const GREETING = 'identify itself'

interface AskOptions {
  readonly deadlineMs?: number
  readonly signal?: AbortSignal | undefined
}

/** Sends a request. `doing` completes the sentence “the engine could not …”. */
export type AskEngine = <T>(
  doing: string,
  call: (signal: AbortSignal) => Promise<T>,
  options?: AskOptions,
) => Promise<T>

/**
 * How a request failed. `silent`: the engine did not answer, so its state is unknown. `gone`: the engine says that the
 * object does not exist. `refused`: the engine answered with another error.
 */
export type EngineFault = 'silent' | 'gone' | 'refused'

export function faultOf(error: unknown): EngineFault | undefined {
  const fault = error instanceof CraikError ? error.details?.engine : undefined
  return fault === 'silent' || fault === 'gone' || fault === 'refused' ? fault : undefined
}

/** Returns whether the engine was unreachable or broke off. The requested object can still exist. */
export const isSilent = (error: unknown): boolean => faultOf(error) === 'silent'
/** Returns whether the engine answered that it has no such container, image, volume or exec. */
export const isGone = (error: unknown): boolean => faultOf(error) === 'gone'

export function asker(address: string): AskEngine {
  return async (doing, call, { deadlineMs = DEADLINE_MS, signal } = {}) => {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), deadlineMs)
    const until = signal ? AbortSignal.any([deadline.signal, signal]) : deadline.signal
    try {
      until.throwIfAborted()
      return await Promise.race([call(until), rejectOnAbort(until)])
    } catch (error) {
      if (error instanceof CraikError) throw error
      if (signal?.aborted) throw new CraikError('interrupted', `interrupted before the engine could ${doing}`)
      if (deadline.signal.aborted) {
        const message = `the engine did not ${doing} within ${deadlineMs / 1000} seconds`
        throw new CraikError('unavailable', message, { hint: 'craik doctor', details: { engine: 'silent' } })
      }
      throw translateError(error, doing, address)
    } finally {
      clearTimeout(timer)
    }
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
  })
}

/**
 * Translates an error of the engine's client. It has a status if the engine answered, and a system error code if it did
 * not.
 */
function translateError(error: unknown, doing: string, address: string): CraikError {
  const { statusCode, code } = error as { statusCode?: number; code?: string }
  if (statusCode === undefined) {
    const isClosed = code === 'EACCES' || code === 'EPERM'
    const how = isClosed ? 'denies you access' : 'does not answer'
    const failed = doing === GREETING ? '' : `cannot ${doing}: `
    const message = `${failed}the engine at ${address} ${how} (${code ?? 'no reason reported'})`
    const hint = isClosed ? permissionHint() : 'craik doctor'
    return new CraikError('unavailable', message, { hint, details: { engine: 'silent', code }, cause: error })
  }
  const engine: EngineFault = statusCode === 404 ? 'gone' : 'refused'
  const details = { engine, status: statusCode }
  const message = `the engine could not ${doing}: ${messageOf(error)}`
  if (statusCode === 404) return new CraikError('not_found', message, { details, cause: error })
  if (statusCode === 409) return new CraikError('conflict', message, { details, cause: error })
  // An engine that shuts down still answers with 503, and the result of the request stays unknown.
  if (statusCode === 503)
    return new CraikError('unavailable', message, {
      hint: 'craik doctor',
      details: { ...details, engine: 'silent' },
      cause: error,
    })
  return new CraikError('unavailable', message, { hint: 'craik doctor', details, cause: error })
}

function permissionHint(): string {
  return 'join the group docker, which is equivalent to root:  sudo usermod -aG docker "$USER"  (then log in again and run:  craik supervisor stop)'
}

/** Returns the engine's own message on one line, without the client's numbers. */
function messageOf(error: unknown): string {
  const { json, message } = error as { json?: unknown; message?: string }
  const own = (json as { message?: unknown } | undefined)?.message
  const text = typeof own === 'string' ? own : (message ?? '').replace(/^\(HTTP code \d+\) [^-]*- /, '')
  return (
    text
      .replaceAll(/\p{C}+/gu, ' ')
      .trim()
      .slice(0, MAX_SAID) || 'no reason reported'
  )
}
