/** Which part of GitHub a request from inside is about: a repository as git speaks of it, or the API as `gh` does. */
import type { Account } from '../../accounts/account.ts'

export interface GithubTarget {
  /** Where it goes, whole. Its host is the account's own, whatever the request said. */
  readonly url: URL
  readonly credential: 'basic' | 'bearer'
  /** As the receipt and a grant name it: `github/OWNER/REPO`, or `github/api`. */
  readonly target: string
  readonly operation: 'git_read' | 'git_write' | 'api'
}

const NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,99}'
/** What git asks of a repository over HTTP, and nothing else of the site. */
const GIT_PATH = new RegExp(
  `^/git/([a-z0-9.-]{1,253}(?::[0-9]{1,5})?)/(${NAME})/(${NAME}?)(?:\\.git)?/(info/refs|git-upload-pack|git-receive-pack)$`,
)
const SERVICES = ['git-upload-pack', 'git-receive-pack'] as const
const API_PATH = /^\/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,4000}$/

/** The site that belongs to an API: `github.com` for `api.github.com`, the same host for an enterprise's own. */
export function siteOf({ baseUrl }: Pick<Account, 'baseUrl'>): URL {
  const api = new URL(baseUrl)
  return new URL(api.host === 'api.github.com' ? 'https://github.com' : api.origin)
}

/** Undefined when it is nothing that git asks for. */
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

/** Undefined when it is no plain path of the API. */
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
  // `gh` names the whole path of an enterprise's API; its own GraphQL stands beside `v3`.
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
