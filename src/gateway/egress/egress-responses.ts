/** Error responses to clients, and how their connections are closed. */
import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { findBlockedReason } from './blocked-hosts.ts'
import { formatDestination } from './egress-destination.ts'
import { registryOf } from './egress-presets.ts'
import { type EgressRequest, HTTPS_PORT } from './rules.ts'

/** A client that stays connected after its response is disconnected after this. */
const LEAVE_DEADLINE_MS = 5_000

export interface EgressAnswer {
  readonly status: 400 | 403 | 429 | 431 | 501 | 502 | 503 | 504
  readonly text: string
  /** The rule of a refusal. */
  readonly rule?: string
  /** The command that would allow the request. */
  readonly allow?: string
}

const REASONS: Readonly<Record<EgressAnswer['status'], string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

const WHY: Readonly<Record<string, string>> = {
  'egress.blocked': 'is blocked by a rule',
  'egress.not_public': 'is refused: its address is not public',
  'egress.token_endpoint': 'is refused: only the host refreshes logins, never a sandbox',
  'egress.damaged_rules': 'is refused: a rule of this sandbox was changed outside Craik',
  'egress.tls': 'is refused: the client did not send a TLS handshake for that host',
  'egress.upgrade': 'is refused: a plain HTTP request cannot be upgraded',
}

/** Returns `blocked by craik: …` with the command that would allow the request, or the reason why none can. */
export function egressRefusal(
  caller: Pick<GatewayCaller, 'sandboxId'>,
  request: EgressRequest,
  rule: string,
): EgressAnswer {
  const to = `blocked by craik: egress to ${formatDestination(request)}`
  if (rule === 'egress.limit')
    return { status: 429, rule, text: `${to} is refused: this sandbox has too many open connections\n` }
  const why = WHY[rule]
  if (why !== undefined) return { status: 403, rule, text: `${to} ${why}\n` }
  const never = findBlockedReason(request)
  if (never !== undefined)
    return { status: 403, rule, text: `${to} cannot be allowed: ${never.reason}\n${never.hint}\n` }
  const allow = allowCommand(caller, request)
  return { status: 403, rule, text: `${to} is not allowed\nallow it:  ${allow}\n`, allow }
}

function allowCommand(
  { sandboxId }: Pick<GatewayCaller, 'sandboxId'>,
  { host, form, port }: EgressRequest,
): string {
  const name = form === 'ipv6' ? `[${host}]` : host
  const where = sandboxId === undefined ? '--all-sandboxes' : `--sandbox ${sandboxId}`
  const preset = registryOf(host, port)
  if (preset !== undefined) return `craik egress allow --preset ${preset} ${where}`
  return `craik egress allow ${name}${port === HTTPS_PORT ? '' : `:${port}`} ${where}`
}

export function malformedRequest(problem: string): EgressAnswer {
  return { status: 400, rule: 'egress.malformed', text: `craik: invalid request: ${problem}\n` }
}

export function answerUnreachable(request: EgressRequest, status: 502 | 504, reason: string): EgressAnswer {
  return {
    status,
    text: `craik: cannot reach ${formatDestination(request)} (${reason.replaceAll('_', ' ')})\n`,
  }
}

export const UNRECORDED: EgressAnswer = {
  status: 503,
  text: 'craik: egress is blocked because no receipt can be written\n',
}

/** Responds on a stream that no HTTP server handles. */
export function answerStream(stream: Duplex, answer: EgressAnswer): void {
  if (stream.destroyed) return
  const { status, text, rule } = answer
  const named = rule === undefined ? '' : `Craik-Rule: ${rule}\r\n`
  stream.end(
    `HTTP/1.1 ${status} ${reasonOf(answer)}\r\nContent-Type: text/plain; charset=utf-8\r\n${named}` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  )
  // The rest of the request is discarded.
  stream.resume()
  const timer = setTimeout(() => stream.destroy(), LEAVE_DEADLINE_MS).unref()
  stream.once('close', () => clearTimeout(timer))
  stream.once('finish', () => stream.readableEnded && stream.destroy())
  stream.once('end', () => stream.writableFinished && stream.destroy())
}

/** npm, pip and other clients show only this line of a refusal. */
function reasonOf({ status, rule, allow }: EgressAnswer): string {
  if (allow !== undefined) return `${REASONS[status]} by craik, allow it with: ${allow}`
  return rule === undefined ? REASONS[status] : `${REASONS[status]} by craik, rule ${rule}`
}

/** `hasBody` means that the rest of the body is not read, so the connection cannot be reused. */
export function answerResponse(response: ServerResponse, answer: EgressAnswer, hasBody: boolean): void {
  const { status, text, rule } = answer
  if (response.destroyed || response.headersSent) {
    response.destroy()
    return
  }
  response.writeHead(status, reasonOf(answer), {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    ...(rule !== undefined && { 'craik-rule': rule }),
    ...(hasBody && { connection: 'close' }),
  })
  response.end(text)
}
