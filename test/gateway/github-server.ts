/**
 * The part of GitHub's API that a few commands of `gh` use: two REST requests, and GraphQL requests by the names of
 * their queries.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'

export interface GithubCall {
  readonly host: string
  readonly what: string
  readonly authorization: string
}

const OWNER = { id: 'U_1', login: 'ada' }
const PULL = {
  id: 'PR_7',
  number: 7,
  title: 'count the teeth',
  state: 'OPEN',
  isDraft: false,
  body: 'of each wheel',
  url: 'https://github.com/ada/engine/pull/7',
  headRefName: 'teeth',
  isCrossRepository: false,
  baseRefName: 'main',
  headRepositoryOwner: OWNER,
  author: OWNER,
  createdAt: '2026-11-01T00:00:00Z',
}
const REPOSITORY = {
  id: 'R_1',
  name: 'engine',
  nameWithOwner: 'ada/engine',
  owner: OWNER,
  description: 'an engine',
  hasIssuesEnabled: true,
  viewerPermission: 'ADMIN',
  defaultBranchRef: { name: 'main' },
  parent: null,
  isPrivate: false,
  url: 'https://github.com/ada/engine',
  hasWikiEnabled: false,
  mergeCommitAllowed: true,
  rebaseMergeAllowed: true,
  squashMergeAllowed: true,
}

/**
 * Answers requests with the token, and others with 401. The result names the request as in a log: `GET /user`, `query
 * PullRequestList`.
 */
export async function serveGithub(
  token: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<GithubCall> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  const { host = '', authorization = '' } = request.headers
  const { pathname } = new URL(request.url ?? '/', 'https://api.github.com')
  const requested = pathname === '/graphql' ? JSON.parse(Buffer.concat(pieces).toString()) : undefined
  const what = (requested && nameOf(requested.query)) ?? `${request.method} ${pathname}`
  // GitHub returns some fields only to clients that announce this feature, as `gh` does.
  const isWhole = requested === undefined || request.headers['graphql-features'] === 'merge_queue'
  const isKnown = [`token ${token}`, `Bearer ${token}`].includes(authorization)
  const body = isKnown ? isWhole && answerTo(what) : { message: 'Bad credentials' }
  response.writeHead(isKnown ? (body ? 200 : 404) : 401, {
    'content-type': 'application/json; charset=utf-8',
    'x-oauth-scopes': 'repo, read:org',
  })
  response.end(JSON.stringify(body || { message: 'Not Found' }))
  return { host, what, authorization }
}

function answerTo(what: string) {
  switch (what) {
    case 'GET /user':
      return { ...OWNER, id: 1, type: 'User' }
    case 'GET /repos/ada/engine':
      return { id: 1, name: 'engine', full_name: 'ada/engine', default_branch: 'main', owner: OWNER }
    case 'query RepositoryInfo':
      return { data: { repository: REPOSITORY } }
    case 'query PullRequestList':
      return {
        data: {
          repository: {
            pullRequests: { totalCount: 1, nodes: [PULL], pageInfo: { hasNextPage: false, endCursor: '' } },
          },
        },
      }
    case 'mutation IssueCreate':
      return {
        data: { createIssue: { issue: { id: 'I_1', url: 'https://github.com/ada/engine/issues/8' } } },
      }
    default:
      return undefined
  }
}

/** Returns `query RepositoryInfo` for example. A query without a name gets the name of its first field. */
function nameOf(query: string): string | undefined {
  const [, kind, name] = /\b(query|mutation)\b\s*(\w*)/.exec(query) ?? []
  const first = /\{\s*(\w+)/.exec(query)?.[1]
  return kind && `${kind} ${name || first}`
}
