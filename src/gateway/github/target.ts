/** The part of GitHub that a request from a sandbox is for: a repository for git, or the API for `gh`. */
import type { Account } from '../../accounts/account.ts'

export interface GithubTarget {
  /** The complete URL. Its host is always the account's own, independent of the request. */
  readonly url: URL
  readonly credential: 'basic' | 'bearer'
  /** The target as receipts and grants name it: `github/OWNER/REPO`, or `github/api`. */
  readonly target: string
  readonly operation: 'git_read' | 'git_write' | 'api'
}

const NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,99}'
/** The paths that git requests of a repository over HTTP, and no others of the site. */
const GIT_PATH = new RegExp(
  `^/git/([a-z0-9.-]{1,253}(?::[0-9]{1,5})?)/(${NAME})/(${NAME}?)(?:\\.git)?/(info/refs|git-upload-pack|git-receive-pack)$`,
)
const SERVICES = ['git-upload-pack', 'git-receive-pack'] as const
const API_PATH = /^\/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,4000}$/

/** Returns the site of an API: `github.com` for `api.github.com`, the same host for an enterprise's own. */
export function siteOf({ baseUrl }: Pick<Account, 'baseUrl'>): URL {
  const api = new URL(baseUrl)
  return new URL(api.host === 'api.github.com' ? 'https://github.com' : api.origin)
}

/** Returns `undefined` for a request that git does not make. */
export function gitTarget(
  method: string,
  path: string,
  account: Pick<Account, 'baseUrl'>,
): GithubTarget | undefined {
  const [pathname = '', query = ''] = splitQuery(path)
  const [, host, owner, repo, what] = GIT_PATH.exec(pathname) ?? []
  const site = siteOf(account)
  if (owner === undefined || !repo || host !== site.host || /\.\.|^\.|\.$/.test(`${owner} ${repo}`))
    return undefined
  const service = what === 'info/refs' ? new URLSearchParams(query).get('service') : what
  const isAsked = what === 'info/refs' ? method === 'GET' : method === 'POST' && query === ''
  if (!isAsked || !SERVICES.some((known) => known === service)) return undefined
  const url = new URL(`/${owner}/${repo}.git/${what}`, site)
  if (what === 'info/refs') url.search = `?service=${service}`
  return {
    url,
    credential: 'basic',
    target: `github/${owner}/${repo}`,
    operation: service === 'git-receive-pack' ? 'git_write' : 'git_read',
  }
}

/** Returns `undefined` when the path is not a plain API path. */
export function apiTarget(path: string, { baseUrl }: Pick<Account, 'baseUrl'>): GithubTarget | undefined {
  const [pathname = '', query] = splitQuery(path)
  if (
    !API_PATH.test(pathname) ||
    /\/\.{1,2}(?:\/|$)|%2e|%2f|%5c/i.test(pathname) ||
    (query?.length ?? 0) > 4000
  )
    return undefined
  const base = new URL(baseUrl)
  const prefix = base.pathname.replace(/\/$/, '')
  // `gh` sends the whole path of an enterprise's API. Its GraphQL endpoint is next to `v3`.
  const isWhole = prefix !== '' && (pathname.startsWith(`${prefix}/`) || pathname === '/api/graphql')
  const url = new URL(base.origin)
  url.pathname = isWhole ? pathname : prefix + pathname
  if (query !== undefined) url.search = `?${query}`
  return { url, credential: 'bearer', target: 'github/api', operation: 'api' }
}

function splitQuery(path: string): readonly [string, string | undefined] {
  const at = path.indexOf('?')
  return at < 0 ? [path, undefined] : [path.slice(0, at), path.slice(at + 1)]
}
