/** Finds the code that answers a request to the sidecar, by method and path. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { LIMITS, type SidecarErrorCode } from './protocol.ts'

export interface SidecarRoute {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** A pattern such as `/jobs/:id/input`. The decoded values of its names are in `params`. */
  readonly path: string
  /** May throw a `SidecarError`. Any other error is answered as `internal`. */
  handle(call: RouteCall): void | Promise<void>
}

export interface RouteCall {
  /** The request's body and, after `respond` or `answer`, the response's. Its errors are already handled. */
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Aborts when the stream is closed, by either end. */
  readonly signal: AbortSignal
  /** Parses the body as JSON, at most `LIMITS.jsonBytes`. */
  json(): Promise<unknown>
  /** Sends the whole response. Does nothing when the stream is gone or already has a response. */
  answer(status: number, value: unknown): void
  /** Begins a response whose body the caller writes to `stream`. Returns false when the stream no longer takes one. */
  respond(status: number, headers?: OutgoingHttpHeaders): boolean
}

/**
 * Returns whether the body is incomplete. Must be called after the body's end and before the response: a stream that is
 * closed by then was cancelled.
 */
export function isBrokenOff(stream: ServerHttp2Stream): boolean {
  return stream.aborted || stream.closed || stream.destroyed
}

const STATUS: Readonly<Record<SidecarErrorCode, number>> = {
  usage: 400,
  not_found: 404,
  conflict: 409,
  gone: 410,
  changed: 412,
  too_large: 413,
  protocol: 426,
  internal: 500,
  refused: 502,
  busy: 503,
  full: 507,
}

/** The sidecar's error response to a request. */
export class SidecarError extends Error {
  readonly code: SidecarErrorCode
  /** For a job's input: the offset that had arrived when its sender lost the turn. */
  readonly offset: number | undefined

  constructor(
    code: SidecarErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly offset?: number } = {},
  ) {
    super(message, options)
    this.name = 'SidecarError'
    this.code = code
    this.offset = options.offset
  }

  get status(): number {
    return STATUS[this.code]
  }
}

/** Returns a whole number of the query, within bounds, or the fallback when it is missing. */
export function queryNumber(query: URLSearchParams, name: string, fallback: number, max: number): number {
  const text = query.get(name)
  if (text === null) return fallback
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(value) && value <= max) return value
  throw new SidecarError('usage', `${name} must be a whole number from 0 to ${max}`)
}

/** Returns a flag of the query, `0` or `1`, or the fallback when it is missing. */
export function queryFlag(query: URLSearchParams, name: string, fallback: boolean): boolean {
  const text = query.get(name)
  if (text === null) return fallback
  if (text === '0' || text === '1') return text === '1'
  throw new SidecarError('usage', `${name} must be 0 or 1`)
}

/** Returns a path of the query. It must not be missing, contain a NUL or exceed its limit. */
export function queryPath(query: URLSearchParams, name = 'path'): string {
  const path = query.get(name)
  if (!path) throw new SidecarError('usage', `${name} is missing`)
  if (path.includes('\0')) throw new SidecarError('usage', `${name} contains a NUL`)
  if (Buffer.byteLength(path) > LIMITS.pathBytes)
    throw new SidecarError('too_large', `${name} is longer than ${LIMITS.pathBytes} bytes`)
  return path
}

interface Found {
  readonly route: SidecarRoute
  readonly params: Readonly<Record<string, string>>
}

/** Finds the route of a request. There are few routes, so their paths are compared part by part. */
export class Router {
  readonly #routes: readonly { readonly route: SidecarRoute; readonly parts: readonly string[] }[]

  constructor(routes: readonly SidecarRoute[]) {
    this.#routes = routes.map((route) => ({ route, parts: route.path.split('/') }))
  }

  find(method: string, path: string): Found {
    const provided = path.split('/')
    let otherMethod = false
    for (const { route, parts } of this.#routes) {
      const params = match(parts, provided)
      if (!params) continue
      if (route.method === method) return { route, params }
      otherMethod = true
    }
    if (otherMethod) throw new SidecarError('usage', `${path.slice(0, 200)} does not support ${method}`)
    throw new SidecarError('not_found', `unknown path: ${path.slice(0, 200)}`)
  }
}

function match(parts: readonly string[], provided: readonly string[]): Record<string, string> | undefined {
  if (parts.length !== provided.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of parts.entries()) {
    const value = provided[index]!
    if (part.startsWith(':')) params[part.slice(1)] = decode(value)
    else if (part !== value) return undefined
  }
  return params
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    throw new SidecarError('usage', 'the path is not valid percent-encoding')
  }
}
