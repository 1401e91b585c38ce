/** One question to an engine: bounded in time, and its failure told so that silence is never taken for an answer. */
import { CraikError } from '../../../../errors.ts'

/** Short answers about what is there; whoever makes or builds something gives more. */
const DEADLINE_MS = 30_000
const MAX_SAID = 300
/** The first question, which is nobody's wish. */
export const GREETING = 'identify itself'

interface AskOptions {
  readonly deadlineMs?: number
  readonly signal?: AbortSignal | undefined
}

/** Says what the engine is asked to do, as in “the engine could not …”. */
export type AskEngine = <T>(
  doing: string,
  call: (signal: AbortSignal) => Promise<T>,
  options?: AskOptions,
) => Promise<T>

/**
 * How it failed. `silent`: nobody knows what the engine did or has. `gone`: it says that there is no such thing.
 * `refused`: it answered, and will not.
 */
export type EngineFault = 'silent' | 'gone' | 'refused'

export function faultOf(error: unknown): EngineFault | undefined {
  const fault = error instanceof CraikError ? error.details?.engine : undefined
  return fault === 'silent' || fault === 'gone' || fault === 'refused' ? fault : undefined
}

/** The engine was not reached, or broke off: what it was asked about may well be there. */
export const isSilent = (error: unknown): boolean => faultOf(error) === 'silent'
/** The engine answered that it has no such container, image, volume or exec. */
export const isGone = (error: unknown): boolean => faultOf(error) === 'gone'

export function asker(address: string): AskEngine {
  return async (doing, call, { deadlineMs = DEADLINE_MS, signal } = {}) => {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), deadlineMs)
    const until = signal ? AbortSignal.any([late.signal, signal]) : late.signal
    try {
      until.throwIfAborted()
      return await Promise.race([call(until), aborted(until)])
    } catch (error) {
      if (error instanceof CraikError) throw error
      if (signal?.aborted) throw new CraikError('interrupted', `interrupted before the engine could ${doing}`)
      if (late.signal.aborted) {
        const message = `the engine did not ${doing} within ${deadlineMs / 1000} seconds`
        throw new CraikError('unavailable', message, { hint: 'craik doctor', details: { engine: 'silent' } })
      }
      throw translated(error, doing, address)
    } finally {
      clearTimeout(timer)
    }
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
  })
}

/** As the engine's client tells it: with a status when the engine answered, with a system's code when it did not. */
function translated(error: unknown, doing: string, address: string): CraikError {
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
  const message = `the engine could not ${doing}: ${said(error)}`
  if (statusCode === 404) return new CraikError('not_found', message, { details, cause: error })
  if (statusCode === 409) return new CraikError('conflict', message, { details, cause: error })
  // An engine that goes down still answers, with this, and what it was asked about stays undecided.
  if (statusCode === 503)
    return new CraikError('unavailable', message, {
      hint: 'craik doctor',
      details: { ...details, engine: 'silent' },
      cause: error,
    })
  return new CraikError('unavailable', message, { hint: 'craik doctor', details, cause: error })
}

function permissionHint(): string {
  return 'join its group, which is equivalent to root:  sudo usermod -aG docker "$USER"  (then log in again and run:  craik supervisor stop)'
}

/** Its own words, without the client's numbers, one line long. */
function said(error: unknown): string {
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
