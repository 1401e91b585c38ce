/** Plain HTTP: each request gets its own decision and its own connection. Redirects go back to the client. */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { pipeline } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { type EgressConnection, type EgressConnections, isAnswer } from './egress-connections.ts'
import { formatDestination, isNameProblem, type NameProblem } from './egress-destination.ts'
import { factsOf } from './egress-facts.ts'
import type { EgressLimits } from './egress-limits.ts'
import { answerResponse, answerUnreachable, type EgressAnswer, malformedRequest } from './egress-responses.ts'
import { type BodyLength, bodyLength, checkHead, forwardHeaders } from './request-head.ts'
import type { EgressRequest } from './rules.ts'
import { type PlainTarget, parsePlainUrl } from './url-paths.ts'

const MAX_ANSWER_HEAD_BYTES = 64 * 1024
/** CONNECT is a tunnel, and TRACE and TRACK echo the request with its credentials. */
const REFUSED_METHODS: readonly string[] = ['CONNECT', 'TRACE', 'TRACK']

interface Plain extends PlainTarget {
  readonly method: string
  readonly body: BodyLength
}

export async function forwardPlainHttp(
  connections: EgressConnections,
  limits: EgressLimits,
  caller: GatewayCaller,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  request.on('error', () => gone.abort())
  response.on('error', () => gone.abort())
  const parsed = parsePlain(request)
  if (isNameProblem(parsed)) {
    await connections.refuse(caller, factsOf('malformed'))
    answerResponse(response, malformedRequest(parsed.problem), true)
    return
  }
  const { destination, method, path } = parsed
  const requested: EgressRequest = { ...destination, protocol: 'http', method, path }
  const connection = await connections.open(caller, requested, gone.signal)
  if (isAnswer(connection)) answerResponse(response, connection, parsed.body !== 'none')
  else await exchange(connection, limits, { request, response, parsed, asked: requested })
}

function parsePlain(request: IncomingMessage): Plain | NameProblem {
  const target = parsePlainUrl(request.url ?? '')
  if (isNameProblem(target)) return target
  const body = bodyLength(request)
  if (typeof body === 'object') return body
  const method = request.method ?? ''
  if (REFUSED_METHODS.includes(method)) return { problem: `the method ${method} is not supported` }
  return checkHead(request, target.destination) ?? { ...target, method, body }
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly parsed: Plain
  readonly asked: EgressRequest
}

/** Forwards one request and its response. Both connections are finished when it resolves. */
async function exchange(
  connection: EgressConnection,
  limits: EgressLimits,
  reported: Exchange,
): Promise<void> {
  const { response, asked: requested } = reported
  const { socket } = connection
  const { promise, resolve } = Promise.withResolvers<string>()
  let httpStatus: number | undefined
  const fail = (outcome: string, answer: EgressAnswer) => {
    if (!response.headersSent) answerResponse(response, answer, true)
    else response.destroy()
    resolve(outcome)
  }
  const total = setTimeout(
    () => fail('too_long', answerUnreachable(requested, 504, 'too_long')),
    limits.totalMs,
  ).unref()
  const stop = () => fail('ended', answerUnreachable(requested, 502, 'no_longer_allowed'))
  connection.until.addEventListener('abort', stop, { once: true })
  socket.setTimeout(limits.idleMs, () => fail('idle', answerUnreachable(requested, 504, 'idle')))
  response.once('close', () => resolve(response.writableFinished ? 'closed' : 'client_gone'))
  try {
    const upstream = send(connection, reported)
    upstream.once('error', () => fail('upstream_broke', answerUnreachable(requested, 502, 'broke_off')))
    // The proxy requests no upgrade, so it refuses one.
    upstream.once('upgrade', () =>
      fail('upstream_broke', answerUnreachable(requested, 502, 'changed_protocols')),
    )
    upstream.once('response', (answer) => {
      httpStatus = answer.statusCode
      try {
        response.writeHead(answer.statusCode!, answer.statusMessage, headersOf(answer))
      } catch {
        return fail('upstream_broke', answerUnreachable(requested, 502, 'unreadable_head'))
      }
      // Registered before the pipeline to the client: a broken response must not count as complete.
      answer.once('error', () => resolve('upstream_broke'))
      pipeline(answer, response, () => {})
    })
  } catch {
    fail('malformed', malformedRequest('its headers cannot be forwarded'))
  }
  if (connection.until.aborted) stop()
  const outcome = await promise
  clearTimeout(total)
  connection.until.removeEventListener('abort', stop)
  const [upBytes, downBytes] = [socket.bytesWritten, socket.bytesRead]
  socket.destroy()
  await connection.end({
    status: outcome === 'closed' || outcome === 'client_gone' ? 'passed' : 'failed',
    outcome,
    upBytes,
    downBytes,
    httpStatus,
  })
}

/** Forwards the body's length as the client stated it. An undeclared body would be read as another request. */
function send({ socket }: EgressConnection, { request, parsed }: Exchange): ClientRequest {
  const { method, target, body, destination } = parsed
  const upstream = httpRequest({
    createConnection: () => socket,
    method,
    path: target,
    setHost: false,
    insecureHTTPParser: false,
    maxHeaderSize: MAX_ANSWER_HEAD_BYTES,
  })
  // A failure below must not leave the request without an error listener.
  upstream.on('error', () => {})
  upstream.setHeader(
    'host',
    destination.port === 80 ? formatDestination(destination).slice(0, -3) : formatDestination(destination),
  )
  for (const [name, values] of forwardHeaders(request.rawHeaders, 'request')) upstream.setHeader(name, values)
  upstream.setHeader('connection', 'close')
  if (body === 'none') return upstream.end()
  if (body === 'chunked') upstream.setHeader('transfer-encoding', 'chunked')
  else upstream.setHeader('content-length', body)
  // Both ends report their errors through their own listeners.
  pipeline(request, upstream, () => {})
  return upstream
}

function headersOf(answer: IncomingMessage): string[] {
  return [...forwardHeaders(answer.rawHeaders, 'response')].flatMap(([name, values]) =>
    values.flatMap((value) => [name, value]),
  )
}
