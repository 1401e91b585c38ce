/**
 * Translates the workspace's paths between the host and the sandbox. Paths outside the workspace have no translation.
 */
import { posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface WorkspacePaths {
  /** Returns undefined when the path is not in the workspace. Resolves relative paths from the workspace. */
  toHost(path: string): string | undefined
  toSandbox(path: string): string | undefined
  /** Replaces every workspace path in the text. */
  textToHost(text: string): string
  textToSandbox(text: string): string
  /** Translates a `file:` URI. Returns undefined for another scheme or a path outside the workspace. */
  uriToHost(uri: string): string | undefined
  uriToSandbox(uri: string): string | undefined
}

/** `host` is null when the folder is not on the host. Then no path has a host path. */
export function workspacePaths(host: string | null, inside: string): WorkspacePaths {
  const toHost = createPathMap(inside, host)
  const toInside = host === null ? () => undefined : createPathMap(host, inside)
  return {
    toHost,
    toSandbox: toInside,
    textToHost: replaceInText(inside, toHost),
    textToSandbox: host === null ? (text) => text : replaceInText(host, toInside),
    uriToHost: (uri) => mapUri(uri, toHost),
    uriToSandbox: (uri) => mapUri(uri, toInside),
  }
}

type Move = (path: string) => string | undefined

function createPathMap(from: string, to: string | null): Move {
  return (path) => {
    // A terminal or editor could display a path with control characters as a different path.
    if (to === null || /\p{Cc}/u.test(path)) return undefined
    const whole = posix.resolve(from, path)
    if (whole === from) return to
    const start = from.endsWith('/') ? from : `${from}/`
    return whole.startsWith(start) ? posix.join(to, whole.slice(start.length)) : undefined
  }
}

/** The end of a path in text is only a guess, so this replaces only its beginning. */
function replaceInText(from: string, move: Move): (text: string) => string {
  // A folder name as short as the root occurs in every path.
  if (from.length < 3) return (text) => text
  const literal = from.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const path = new RegExp(`(?<![\\w./~-])${literal}(?![\\w.~-])([^\\s'"\`<>|;&()]*)`, 'g')
  return (text) =>
    text.replaceAll(path, (found, rest: string) => {
      const root = move(from)
      return root === undefined || move(found) === undefined ? found : `${root}${rest}`
    })
}

function mapUri(uri: string, move: Move): string | undefined {
  try {
    const { protocol, hash, search } = new URL(uri)
    if (protocol !== 'file:') return undefined
    const path = move(fileURLToPath(uri))
    return path === undefined ? undefined : `${pathToFileURL(path).href}${search}${hash}`
  } catch {
    return undefined
  }
}
