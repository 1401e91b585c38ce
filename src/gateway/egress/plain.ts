/** Plain HTTP: each request is decided by itself, and sent on a connection of its own; redirects go back to the client. */
import {
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { pipeline } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { answerResponse, answerUnreachable, type EgressAnswer, malformed } from './answers.ts'
import { type EgressConnection, type EgressConnections, isAnswer } from './connections.ts'
import { factsOf } from './facts.ts'
import { type BodyLength, bodyLength, checkHead, passedOn } from './headers.ts'
import type { EgressLimits } from './limits.ts'
import { formatDestination, isNameProblem, type NameProblem } from './names.ts'
import { type PlainTarget, parsePlainUrl } from './paths.ts'
import type { EgressRequest } from './rules.ts'

const MAX_ANSWER_HEAD_BYTES = 64 * 1024
/** A tunnel by another name, and an echo of what was sent with credentials in it. */
const REFUSED_METHODS: readonly string[] = ['CONNECT', 'TRACE', 'TRACK']

interface Plain extends PlainTarget {
  readonly method: string
  readonly body: BodyLength
}

export async function forwardPlainHttp(
  passages: EgressConnections,
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
    await passages.refuse(caller, factsOf('malformed'))
    answerResponse(response, malformed(parsed.problem), true)
    return
  }
  const { destination, method, path } = parsed
  const asked: EgressRequest = { ...destination, protocol: 'http', method, path }
  const passage = await passages.open(caller, asked, gone.signal)
  if (isAnswer(passage)) answerResponse(response, passage, parsed.body !== 'none')
  else await exchange(passage, limits, { request, response, parsed, asked })
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

/** One request and its answer; both ends are settled when it is over. */
async function exchange(passage: EgressConnection, limits: EgressLimits, told: Exchange): Promise<void> {
  const { response, asked } = told
  const { socket } = passage
  const { promise, resolve } = Promise.withResolvers<string>()
  let httpStatus: number | undefined
  const fail = (outcome: string, answer: EgressAnswer) => {
    if (!response.headersSent) answerResponse(response, answer, true)
    else response.destroy()
    resolve(outcome)
  }
  const total = setTimeout(
    () => fail('too_long', answerUnreachable(asked, 504, 'too_long')),
    limits.totalMs,
  ).unref()
  const stop = () => fail('ended', answerUnreachable(asked, 502, 'no_longer_allowed'))
  passage.until.addEventListener('abort', stop, { once: true })
  socket.setTimeout(limits.idleMs, () => fail('idle', answerUnreachable(asked, 504, 'idle')))
  response.once('close', () => resolve(response.writableFinished ? 'closed' : 'client_gone'))
  try {
    const upstream = send(passage, told)
    upstream.once('error', () => fail('upstream_broke', answerUnreachable(asked, 502, 'broke_off')))
    // Nothing that was asked for here becomes something else.
    upstream.once('upgrade', () => fail('upstream_broke', answerUnreachable(asked, 502, 'changed_protocols')))
    upstream.once('response', (answer) => {
      httpStatus = answer.statusCode
      try {
        response.writeHead(answer.statusCode!, answer.statusMessage, headersOf(answer))
      } catch {
        return fail('upstream_broke', answerUnreachable(asked, 502, 'unreadable_head'))
      }
      // Before the client is: an answer that broke off must not look like one that was read to its end.
      answer.once('error', () => resolve('upstream_broke'))
      pipeline(answer, response, () => {})
    })
  } catch {
    fail('malformed', malformed('its headers cannot be forwarded'))
  }
  if (passage.until.aborted) stop()
  const outcome = await promise
  clearTimeout(total)
  passage.until.removeEventListener('abort', stop)
  const [upBytes, downBytes] = [socket.bytesWritten, socket.bytesRead]
  socket.destroy()
  await passage.end({
    status: outcome === 'closed' || outcome === 'client_gone' ? 'passed' : 'failed',
    outcome,
    upBytes,
    downBytes,
    httpStatus,
  })
}

/** Its length is said as the client said it: a body that nobody announced would be read as another request. */
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
  // What is refused below must not leave it without an ear.
  upstream.on('error', () => {})
  upstream.setHeader(
    'host',
    destination.port === 80 ? formatDestination(destination).slice(0, -3) : formatDestination(destination),
  )
  for (const [name, values] of passedOn(request.rawHeaders, 'request')) upstream.setHeader(name, values)
  upstream.setHeader('connection', 'close')
  if (body === 'none') return upstream.end()
  if (body === 'chunked') upstream.setHeader('transfer-encoding', 'chunked')
  else upstream.setHeader('content-length', body)
  // The end of either is seen where it is waited for.
  pipeline(request, upstream, () => {})
  return upstream
}

function headersOf(answer: IncomingMessage): string[] {
  return [...passedOn(answer.rawHeaders, 'response')].flatMap(([name, values]) =>
    values.flatMap((value) => [name, value]),
  )
}
