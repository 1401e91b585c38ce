/** The head of a plain request: refused where two readers could disagree about it, passed on without what is for one hop. */
import type { IncomingMessage } from 'node:http'
import { MAX_HEADERS } from './limits.ts'
import { type Destination, isNameProblem, type NameProblem, parseAuthority } from './names.ts'

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
/** Answered by this side already. */
const REQUEST_ONLY = new Set(['expect', 'host', 'content-length'])

export type BodyLength = 'none' | 'chunked' | number

/** How long the body is, or why nobody could be sure. */
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

/** The Host header is there once, or in HTTP/1.0 not at all, and says the same as the URL. */
export function checkHead(
  { rawHeaders, httpVersion }: Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'>,
  { host, port }: Destination,
): NameProblem | undefined {
  if (rawHeaders.length > 2 * MAX_HEADERS) return { problem: `it has more than ${MAX_HEADERS} headers` }
  const hosts = valuesOf(rawHeaders, 'host')
  if (hosts.length === 0 && httpVersion === '1.0') return undefined
  const said = hosts.length === 1 ? parseAuthority(hosts[0]!, 80) : undefined
  const isSame = said !== undefined && !isNameProblem(said) && said.host === host && said.port === port
  return isSame ? undefined : { problem: 'its Host header differs from the host of its URL' }
}

/** By name, in the order of their coming; each name with all its values. */
export function passedOn(rawHeaders: readonly string[], of: 'request' | 'response'): Map<string, string[]> {
  const named = new Set(
    valuesOf(rawHeaders, 'connection').flatMap((value) => value.toLowerCase().split(/[\s,]+/)),
  )
  const kept = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (HOP_BY_HOP.has(name) || named.has(name) || (of === 'request' && REQUEST_ONLY.has(name))) continue
    kept.set(name, [...(kept.get(name) ?? []), rawHeaders[i + 1]!])
  }
  return kept
}

function valuesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name)
}
