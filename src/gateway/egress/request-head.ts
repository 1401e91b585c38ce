/**
 * The head of a plain request. It is refused where two parsers could disagree, and forwarded without its hop-by-hop
 * headers.
 */
import type { IncomingMessage } from 'node:http'
import { type Destination, isNameProblem, type NameProblem, parseAuthority } from './egress-destination.ts'
import { MAX_HEADERS } from './egress-limits.ts'

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])
/** The proxy handles these itself. */
const REQUEST_ONLY = new Set(['expect', 'host', 'content-length'])

export type BodyLength = 'none' | 'chunked' | number

/** Returns the body's length, or the reason why it is ambiguous. */
export function bodyLength(request: Pick<IncomingMessage, 'rawHeaders'>): BodyLength | NameProblem {
  const lengths = valuesOf(request.rawHeaders, 'content-length')
  const codings = valuesOf(request.rawHeaders, 'transfer-encoding')
  if (lengths.length + codings.length > 1) return { problem: 'it has more than one body length' }
  if (codings.length === 1)
    return codings[0]!.toLowerCase() === 'chunked'
      ? 'chunked'
      : { problem: 'its transfer encoding is not chunked' }
  if (lengths.length === 0) return 'none'
  return /^(?:0|[1-9][0-9]{0,14})$/.test(lengths[0]!)
    ? Number(lengths[0])
    : { problem: 'its content length is not a number' }
}

/** Requires one Host header that matches the URL. HTTP/1.0 can omit it. */
export function checkHead(
  { rawHeaders, httpVersion }: Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'>,
  { host, port }: Destination,
): NameProblem | undefined {
  if (rawHeaders.length > 2 * MAX_HEADERS) return { problem: `it has more than ${MAX_HEADERS} headers` }
  const hosts = valuesOf(rawHeaders, 'host')
  if (hosts.length === 0 && httpVersion === '1.0') return undefined
  const reply = hosts.length === 1 ? parseAuthority(hosts[0]!, 80) : undefined
  const isSame = reply !== undefined && !isNameProblem(reply) && reply.host === host && reply.port === port
  return isSame ? undefined : { problem: 'its Host header differs from the host of its URL' }
}

/** Returns the headers by name, in order of arrival, each name with all its values. */
export function forwardHeaders(
  rawHeaders: readonly string[],
  of: 'request' | 'response',
): Map<string, string[]> {
  const named = new Set(
    valuesOf(rawHeaders, 'connection').flatMap((value) => value.toLowerCase().split(/[\s,]+/)),
  )
  const stored = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (HOP_BY_HOP.has(name) || named.has(name) || (of === 'request' && REQUEST_ONLY.has(name))) continue
    stored.set(name, [...(stored.get(name) ?? []), rawHeaders[i + 1]!])
  }
  return stored
}

function valuesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name)
}
