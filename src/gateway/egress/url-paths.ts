/** Paths of plain HTTP requests in the form that rules compare: segment by segment, without traversal. */
import { type Destination, isNameProblem, type NameProblem, parseAuthority } from './egress-destination.ts'

const MAX_URL_LENGTH = 8 * 1024

export interface PlainTarget {
  readonly destination: Destination
  /** The forwarded target: path and query, exactly as the client sent them. */
  readonly target: string
  /** The path for rules. `undefined` when two servers could read it differently. */
  readonly path: string | undefined
}

/** Parses the absolute form of a request's target. It accepts only http, because TLS goes through CONNECT. */
export function parsePlainUrl(text: string): PlainTarget | NameProblem {
  if (text.length > MAX_URL_LENGTH) return { problem: `its URL is longer than ${MAX_URL_LENGTH} characters` }
  if (/[^\x21-\x7e]/.test(text))
    return { problem: 'its URL contains a space, a control character or a non-ASCII character' }
  if (/^https:/i.test(text)) return { problem: 'https requires CONNECT, not a plain request' }
  const parts = /^http:\/\/([^/?#]*)(\/[^?#]*)?(\?[^#]*)?$/i.exec(text)
  if (parts === null) return { problem: 'its URL is not of the form http://host/path' }
  const [, authority, path = '/', query = ''] = parts as unknown as [string, string, string?, string?]
  const destination = parseAuthority(authority, 80)
  if (isNameProblem(destination)) return destination
  return { destination, target: `${path}${query}`, path: canonicalPath(path) }
}

/**
 * Returns the decoded path. `undefined` when it climbs, hides a separator, is encoded twice, or has parameters that a
 * server may drop from a segment.
 */
export function canonicalPath(path: string): string | undefined {
  if (!path.startsWith('/') || path.includes('\\') || !path.isWellFormed()) return undefined
  const segments: string[] = []
  for (const segment of path.slice(1).split('/')) {
    const plain = decode(segment)
    if (plain === undefined || /[\p{Cc}/\\%]/u.test(plain) || /^\.{1,2}(?:;|$)/.test(plain)) return undefined
    segments.push(plain)
  }
  return `/${segments.join('/')}`
}

/** Returns whether a path equals a prefix or is below it. */
export function isWithin(prefix: string, path: string): boolean {
  const start = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
  return path === start || path.startsWith(`${start}/`)
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
