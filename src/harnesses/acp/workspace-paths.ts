/** The workspace under its two names: where it is on the host, and where agents see it. Nothing outside it has another name. */
import { posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface WorkspacePaths {
  /** Undefined: it is not in the workspace. Relative ones are taken from the workspace. */
  toHost(path: string): string | undefined
  toInside(path: string): string | undefined
  /** With every path of the workspace in it under its other name. */
  textToHost(text: string): string
  textToInside(text: string): string
  /** A `file:` address. Undefined: none, or not in the workspace. */
  uriToHost(uri: string): string | undefined
  uriToInside(uri: string): string | undefined
}

/** `host` null: the folder is nowhere on the host, and nothing has a name there. */
export function workspacePaths(host: string | null, inside: string): WorkspacePaths {
  const toHost = createPathMap(inside, host)
  const toInside = host === null ? () => undefined : createPathMap(host, inside)
  return {
    toHost,
    toInside,
    textToHost: replaceInText(inside, toHost),
    textToInside: host === null ? (text) => text : replaceInText(host, toInside),
    uriToHost: (uri) => mapUri(uri, toHost),
    uriToInside: (uri) => mapUri(uri, toInside),
  }
}

type Move = (path: string) => string | undefined

function createPathMap(from: string, to: string | null): Move {
  return (path) => {
    // A name with control characters could be shown as another.
    if (to === null || /\p{Cc}/u.test(path)) return undefined
    const whole = posix.resolve(from, path)
    if (whole === from) return to
    const start = from.endsWith('/') ? from : `${from}/`
    return whole.startsWith(start) ? posix.join(to, whole.slice(start.length)) : undefined
  }
}

/** Where a path ends in words is a guess: what is moved is only its beginning. */
function replaceInText(from: string, move: Move): (text: string) => string {
  // A folder as short as the root is in every path.
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
