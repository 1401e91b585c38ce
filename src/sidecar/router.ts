/** What a request to the sidecar is to the code that answers it, and how it is found by method and path. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { LIMITS, type SidecarErrorCode } from './protocol.ts'

export interface Route {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** Such as `/jobs/:id/input`; what stands for a name is in `params`, decoded. */
  readonly path: string
  /** May throw a `SidecarError`; anything else that it throws is answered as `internal`. */
  handle(call: RouteCall): void | Promise<void>
}

export interface RouteCall {
  /** The request's body and, after `respond` or `answer`, the response's. Its errors are handled already. */
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Aborts when the stream is closed, whoever closed it. */
  readonly signal: AbortSignal
  /** The body as JSON, at most `LIMITS.jsonBytes`. */
  json(): Promise<unknown>
  /** The whole answer. Does nothing when the stream is gone or was answered. */
  answer(status: number, value: unknown): void
  /** The beginning of an answer whose body the caller writes to `stream`. False when nobody is there any more. */
  respond(status: number, headers?: OutgoingHttpHeaders): boolean
}

/** After a body's end and before the answer: a stream that is closed by then was cancelled, and the body is cut. */
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

/** What the sidecar answers instead of what it was asked for. */
export class SidecarError extends Error {
  readonly code: SidecarErrorCode
  /** Of a job's input: how much had arrived when its sender lost the turn. */
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

/** A whole number of the query, within bounds; the fallback when it is not given. */
export function queryNumber(query: URLSearchParams, name: string, fallback: number, max: number): number {
  const text = query.get(name)
  if (text === null) return fallback
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(value) && value <= max) return value
  throw new SidecarError('usage', `${name} must be a whole number from 0 to ${max}`)
}

/** `0` or `1`; the fallback when it is not given. */
export function queryFlag(query: URLSearchParams, name: string, fallback: boolean): boolean {
  const text = query.get(name)
  if (text === null) return fallback
  if (text === '0' || text === '1') return text === '1'
  throw new SidecarError('usage', `${name} must be 0 or 1`)
}

/** A path of the query: given, without NUL, within its limit. */
export function queryPath(query: URLSearchParams, name = 'path'): string {
  const path = query.get(name)
  if (!path) throw new SidecarError('usage', `${name} is missing`)
  if (path.includes('\0')) throw new SidecarError('usage', `${name} contains a NUL`)
  if (Buffer.byteLength(path) > LIMITS.pathBytes)
    throw new SidecarError('too_large', `${name} is longer than ${LIMITS.pathBytes} bytes`)
  return path
}

interface Found {
  readonly route: Route
  readonly params: Readonly<Record<string, string>>
}

/** Finds the route of a request. Paths are few, so they are compared part by part. */
export class Router {
  readonly #routes: readonly { readonly route: Route; readonly parts: readonly string[] }[]

  constructor(routes: readonly Route[]) {
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
