/**
 * Git and `gh` from a sandbox, with the login on the host. Each request is decided, recorded and forwarded as a stream.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Agent, type Dispatcher } from 'undici'
import type { Account, Broker } from '../../accounts/account.ts'
import { isSentinel } from '../../accounts/sentinels.ts'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { CredentialMask } from '../../lib/credential-mask.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { decide, denialIn, policyDeniedError } from '../../policy/decide.ts'
import { parseRequest } from '../../policy/decision-request.ts'
import { decideRequest } from '../../policy/policy-decision.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import { redactValue } from '../../receipts/redaction/redact.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'
import type { GatewayCaller } from '../caller.ts'
import { faultMessage, isConfigFault, sameAddress } from '../config-fault.ts'
import { githubDenials } from './refusals.ts'
import { apiTarget, type GithubTarget, gitTarget } from './target.ts'

const CONNECT_MS = 15_000
/** A server may pack objects for a while before its first byte. */
const IDLE_MS = 5 * 60_000
const HEADER_BYTES = 64 * 1024
/** The size of one request from a sandbox. GitHub itself accepts pushes of up to 2 GiB. */
const BODY_BYTES = 2 * 1024 ** 3

const SENT = [
  'accept',
  'accept-language',
  'content-encoding',
  'content-type',
  'git-protocol',
  'graphql-features',
  'if-modified-since',
  'if-none-match',
  'x-github-api-version',
  'time-zone',
] as const
const ANSWERED = [
  'cache-control',
  'content-type',
  'date',
  'etag',
  'expires',
  'last-modified',
  'link',
  'location',
  'pragma',
  'retry-after',
  'vary',
  'x-github-media-type',
  'x-github-request-id',
  'x-github-sso',
  'x-oauth-scopes',
  'x-accepted-oauth-scopes',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-ratelimit-resource',
  'x-ratelimit-used',
] as const

export interface GithubOptions {
  readonly store: Store
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly broker: Broker
  /** Certificate authorities in addition to the system's. */
  readonly authorities?: readonly string[]
}

export interface GithubRoute {
  /** Returns whether a request in origin form is for GitHub. */
  isFor(request: IncomingMessage, account: Account | undefined): boolean
  handle(caller: GatewayCaller, request: IncomingMessage, response: ServerResponse): Promise<void>
  close(): Promise<void>
}

export function githubRoute(options: GithubOptions): GithubRoute {
  const agent = new Agent({
    allowH2: false,
    maxHeaderSize: HEADER_BYTES,
    headersTimeout: IDLE_MS,
    bodyTimeout: IDLE_MS,
    connect: {
      timeout: CONNECT_MS,
      rejectUnauthorized: true,
      ...(options.authorities && { ca: [...options.authorities] }),
    },
  })
  const denials = githubDenials(options.log)
  return {
    isFor: (request, account) =>
      request.url?.startsWith('/git/') === true ||
      (account !== undefined && request.headers.host === new URL(account.baseUrl).host),

    async handle(caller, request, response) {
      const until = new AbortController()
      response.once('close', () => {
        if (!response.writableFinished) until.abort(new CraikError('interrupted', 'the client disconnected'))
      })
      const accounts = await options.broker.accounts(until.signal).catch((error: unknown) => {
        if (!isConfigFault(error)) throw error
        answer(response, 500, faultMessage(error))
      })
      if (accounts === undefined) return
      const account = accounts.find(({ family }) => family === 'github')
      if (account === undefined) {
        answer(response, 401, 'the host has no GitHub login; log in there:  gh auth login')
        return
      }
      const { method = 'GET', url = '/' } = request
      const target = url.startsWith('/git/') ? gitTarget(method, url, account) : apiTarget(url, account)
      if (target === undefined) {
        answer(response, 404, 'not a route of git or gh')
        return
      }
      if (!presentsOwn(request, caller, account.id)) {
        answer(response, 401, 'the credential is not the one of this sandbox')
        return
      }
      await pass({ ...options, agent, denials }, caller, account, target, request, response, until.signal)
    },

    async close() {
      await agent.destroy()
      await denials.close()
    },
  }
}

interface ForwardDeps extends GithubOptions {
  readonly agent: Agent
  readonly denials: ReturnType<typeof githubDenials>
}

async function pass(
  deps: ForwardDeps,
  caller: GatewayCaller,
  account: Account,
  { url, credential: form, target, operation }: GithubTarget,
  request: IncomingMessage,
  response: ServerResponse,
  until: AbortSignal,
): Promise<void> {
  const { store, log, broker, agent, denials } = deps
  const grantId = await caller.grantFor('login.use', operation, target)
  const requested = {
    operator: caller.operator,
    capability: 'login.use',
    operation,
    target,
    credential_ref: account.id,
    scope: { ...caller.scope, ...(caller.sandboxId !== undefined && { sandbox_id: caller.sandboxId }) },
    policy_envelope_id: caller.policyEnvelopeId,
    ...(grantId !== undefined && { grant_id: grantId }),
  }
  const message = denials.isSingle(caller) ? undefined : await findUnwrittenRefusal(deps, caller, requested)
  if (message !== undefined) {
    answer(response, 403, message)
    return
  }
  const decision = await decide(store, log, requested, {
    kind: 'egress',
    links: {},
    metadata: { host: url.host, method: request.method ?? 'GET', ...pathFact(url) },
  })
  if (decision.effect === 'deny') {
    denials.spend(caller)
    answer(response, 403, policyDeniedError(decision, requested).message)
    return
  }
  const bytes = { out: 0, in: 0 }
  const startedMs = performance.now()
  let status: number | undefined
  let failure: string | undefined
  try {
    const { headers } = sameAddress(account, await broker.credential(account.id, until))
    const secret = credentialHeader(headers, form)
    const mask = new CredentialMask(Object.values(headers).map((value) => value.replace(/^\S+\s+/, '')))
    const upstream = await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: request.method as Dispatcher.HttpMethod,
      // Without compression, so that a credential in the response can be masked.
      headers: {
        ...pickHeaders(request, SENT),
        'user-agent': 'craik',
        'accept-encoding': 'identity',
        ...secret,
      },
      body: hasBody(request) ? Readable.from(countBytes(request, bytes)) : null,
      signal: until,
    })
    status = upstream.statusCode
    if (status === 401 || status === 403) {
      await upstream.body.dump()
      answerRefused(response, status, upstream)
    } else if ((upstream.headers['content-encoding'] ?? 'identity') !== 'identity') {
      upstream.body.on('error', () => {}).destroy()
      throw new CraikError('provider_failed', 'GitHub sent a compressed response that Craik did not request')
    } else {
      const answered = Object.entries(pickHeaders(upstream, ANSWERED))
      response.writeHead(
        status,
        Object.fromEntries(answered.map(([name, value]) => [name, mask.maskText(value)])),
      )
      const maskStream = (chunks: AsyncIterable<Buffer>) => maskChunks(mask, chunks, bytes)
      await pipeline(upstream.body, maskStream, response, { signal: until })
    }
  } catch (error) {
    failure = until.aborted ? 'cancelled' : codeOf(error)
    if (response.headersSent) response.destroy()
    else if (isConfigFault(error)) answer(response, 500, faultMessage(error))
    else answer(response, 502, `cannot reach GitHub or read its response (${failure})`)
  }
  const observedMeasure = (name: string, value: number): Measure => ({ name, value, source: 'observed' })
  await decision.open.end({
    status: failure === undefined && status !== undefined && status < 400 ? 'passed' : 'failed',
    measures: [
      observedMeasure('duration_ms', Math.round(performance.now() - startedMs)),
      observedMeasure('bytes_out', bytes.out),
      observedMeasure('bytes_in', bytes.in),
    ],
    metadata: {
      ...(status !== undefined && { http_status: status }),
      ...(failure !== undefined && { failure }),
    },
  })
}

/**
 * In a flood, the policy is evaluated before anything is written, and refusals are counted. Returns `undefined` when
 * the policy allows the request.
 */
async function findUnwrittenRefusal(
  { store, clock, denials }: ForwardDeps,
  caller: GatewayCaller,
  request: Parameters<typeof policyDeniedError>[1],
): Promise<string | undefined> {
  const { evaluation } = await store.read((tables) => decideRequest(tables, parseRequest(request), clock))
  if (evaluation.effect === 'allow') return undefined
  const { operation, target } = request
  denials.count(caller, { rule: evaluation.rule, operation, target, count: 1 }, evaluation.rule)
  return policyDeniedError(denialIn({ evaluation, ref: undefined }), request).message
}

/** Returns the path if it is a valid reference. Nothing else of the request is recorded. */
function pathFact({ pathname }: URL): { readonly path?: string } {
  const path = pathname.slice(1)
  return REFERENCE.test(path) && !redactValue(path).redacted ? { path } : {}
}

/** Returns whether the request presents the caller's own sentinel, or no credential. */
function presentsOwn(
  { headers: { authorization } }: IncomingMessage,
  caller: GatewayCaller,
  accountId: string,
): boolean {
  if (authorization === undefined || caller.credentials === 'forward') return true
  const [scheme = '', value = ''] = authorization.split(' ')
  const own = caller.sentinelFor(accountId)
  if (own === undefined) return false
  if (/^(?:token|bearer)$/i.test(scheme)) return isSentinel(value, own)
  const pair = Buffer.from(value, 'base64').toString().split(':')
  return /^basic$/i.test(scheme) && pair.some((part) => isSentinel(part, own))
}

/** Git sends a name and a password, `gh` sends a token. */
function credentialHeader(headers: Readonly<Record<string, string>>, form: 'basic' | 'bearer') {
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1]
  if (token === undefined)
    throw new CraikError('unavailable', 'the GitHub login of the host has no token', {
      hint: 'log in on the host:  gh auth login',
    })
  return {
    authorization:
      form === 'bearer'
        ? `Bearer ${token}`
        : `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`,
  }
}

function pickHeaders(
  { headers }: { readonly headers: NodeJS.Dict<string | string[]> },
  names: readonly string[],
): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return typeof value === 'string' ? [[name, value]] : []
    }),
  )
}

async function* maskChunks(
  mask: CredentialMask,
  chunks: AsyncIterable<Buffer>,
  bytes: { in: number },
): AsyncGenerator<Buffer> {
  const stream = mask.stream()
  for await (const chunk of chunks) {
    bytes.in += chunk.length
    const passed = stream.feed(chunk)
    if (passed.length > 0) yield passed
  }
  yield stream.flush()
}

/** Headers with numbers, so that a client waits as long as it should. */
const NUMBERS = ANSWERED.filter((name) => name === 'retry-after' || name.startsWith('x-ratelimit-'))

/**
 * A server that rejects a token may quote it. Therefore neither the text nor the other headers of its response are
 * forwarded.
 */
function answerRefused(response: ServerResponse, status: 401 | 403, upstream: Dispatcher.ResponseData): void {
  const numbers = Object.entries(pickHeaders(upstream, NUMBERS)).filter(([, value]) =>
    /^\d{1,12}$/.test(value),
  )
  const what =
    status === 401 ? 'rejected the login of the host' : 'does not allow this for the login of the host'
  const message = `craik: GitHub ${what} (${status}); check there:  gh auth status`
  response.writeHead(status, {
    ...Object.fromEntries(numbers),
    'content-type': 'application/json; charset=utf-8',
  })
  response.end(JSON.stringify({ message }))
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

async function* countBytes(request: IncomingMessage, bytes: { out: number }): AsyncGenerator<Buffer> {
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes.out += chunk.length
    if (bytes.out > BODY_BYTES)
      throw new CraikError(
        'too_large',
        'the request body is larger than 2 GiB, which GitHub does not accept',
        {
          hint: 'push fewer commits at a time',
        },
      )
    yield chunk
  }
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
  response.end(`craik: ${text}\n`)
}

/** Returns the error's code only, because its message may contain sent data. */
function codeOf(error: unknown): string {
  if (error instanceof CraikError) return error.code
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,60}$/.test(code) ? code : 'failed'
}
