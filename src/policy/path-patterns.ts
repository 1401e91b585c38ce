/** Paths in requests and grants: normalized, never above their start, with globs on whole segments. */

const MAX_PATH = 1000

/**
 * Returns the normalized path, or `undefined` when it contains `..`, is empty or too long, or holds forbidden
 * characters.
 */
export function normalisePath(path: string): string | undefined {
  if (path === '' || path.length > MAX_PATH || /[\u0000-\u001f\u007f\\]/.test(path) || !path.isWellFormed())
    return undefined
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) return undefined
  const joined = segments.join('/')
  return path.startsWith('/') ? `/${joined}` : joined === '' ? '.' : joined
}

/** Normalizes a path in which a whole segment can be `*` (any one segment) or `**` (any number, including none). */
export function normalisePattern(pattern: string): string | undefined {
  const path = normalisePath(pattern)
  if (path === undefined) return undefined
  const glob = path.split('/').some((segment) => segment.includes('*') && segment !== '*' && segment !== '**')
  return glob ? undefined : path
}

/**
 * Returns whether a normalized path matches a normalized pattern. A relative pattern never matches an absolute path.
 */
export function matchesPattern(pattern: string, path: string): boolean {
  if (pattern.startsWith('/') !== path.startsWith('/')) return false
  return matchSegments(segmentsOf(pattern), segmentsOf(path))
}

/** After a mismatch only the latest `**` can help, by matching one more segment. So the work is at most the product. */
function matchSegments(pattern: readonly string[], path: readonly string[]): boolean {
  let p = 0
  let s = 0
  let star = -1
  let taken = 0
  while (s < path.length) {
    if (pattern[p] === '**') {
      star = p++
      taken = s
    } else if (p < pattern.length && (pattern[p] === '*' || pattern[p] === path[s])) {
      p++
      s++
    } else if (star >= 0) {
      p = star + 1
      s = ++taken
    } else return false
  }
  return pattern.slice(p).every((segment) => segment === '**')
}

function segmentsOf(path: string): readonly string[] {
  return path === '.' ? [] : path.split('/').filter((segment) => segment !== '')
}
