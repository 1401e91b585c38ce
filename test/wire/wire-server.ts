/** A model server on loopback that speaks one real wire format. It validates requests and follows a script. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Certificate } from './certificate.ts'

export interface WireUsage {
  readonly input: number
  readonly cacheRead: number
  readonly output: number
}

/** The server's response to one request, independent of the dialect. */
export type Act =
  | {
      readonly kind: 'text'
      readonly text: string
      readonly stop?: 'end' | 'max_tokens' | 'refused'
      /** With `none`, the response ends properly without counts. A raw value is sent unchanged. */
      readonly usage?: WireUsage | 'none' | { readonly raw: unknown }
    }
  | {
      readonly kind: 'tool_call'
      readonly name: string
      /** A string is sent unchanged, even if it is not JSON. */
      readonly arguments: Readonly<Record<string, unknown>> | string
      readonly text?: string
      readonly usage?: WireUsage | 'none'
      readonly stop?: 'max_tokens'
    }
  | {
      readonly kind: 'refuse'
      readonly status: number
      readonly message?: string
      readonly headers?: Readonly<Record<string, string>>
      /** Replaces the dialect's own error body. */
      readonly body?: string
    }
  /** Sends text, then an error event of the dialect. */
  | { readonly kind: 'error_event'; readonly text: string; readonly message: string }
  /** Sends text, then destroys the connection. */
  | { readonly kind: 'break'; readonly text: string }
  /** Sends text, then ends the body properly without the dialect's last event. */
  | { readonly kind: 'cut'; readonly text: string }
  /** Sends text, then nothing more. The connection stays open. */
  | { readonly kind: 'hang'; readonly text: string }
  /** Sends a whole response, one byte at a time. */
  | { readonly kind: 'drip'; readonly text: string; readonly everyMs: number }
  /** Never responds. */
  | { readonly kind: 'silence' }
  | { readonly kind: 'redirect'; readonly location: string }
  /** Sends an event stream of exactly these bytes. */
  | {
      readonly kind: 'raw'
      readonly body: string | Buffer
      readonly headers?: Readonly<Record<string, string>>
    }
  /** Sends one endless event, until the client closes the connection. */
  | { readonly kind: 'endless_event' }
  /** Closes the connection without a response. */
  | { readonly kind: 'slam' }

/** The wire format of a dialect. */
export interface ScriptedAnswer {
  /** The path of the base URL, after the port. */
  readonly basePath: string
  readonly keyHeader: string
  /** Returns why a request is invalid in this dialect. `undefined` when it is valid. */
  check(request: SeenRequest): string | undefined
  /** Returns the frames of a whole response. The last frame ends it. */
  answer(act: Extract<Act, { kind: 'text' | 'tool_call' }>, model: string): string[]
  errorFrame(message: string): string
  errorBody(status: number, message: string): string
}

export interface SeenRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly rawBody: string
  // biome-ignore lint/suspicious/noExplicitAny: whatever was sent, for tests to look into
  readonly body: any
  /** The reason why the request was invalid. */
  invalid?: string | undefined
}

export interface WireServer extends AsyncDisposable {
  readonly baseUrl: string
  readonly requests: readonly SeenRequest[]
  /** Resolves when the client closes a connection before its response was complete. */
  readonly hangUp: Promise<void>
  close(): Promise<void>
}

/**
 * Starts the server. Each request gets the next entry of the script, and the last entry repeats. With a certificate,
 * the server uses TLS.
 */
export async function startWire(
  speech: ScriptedAnswer,
  script: readonly Act[],
  certificate?: Certificate,
): Promise<WireServer> {
  const requests: SeenRequest[] = []
  const { promise: hangUp, resolve: hungUp } = Promise.withResolvers<void>()
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    outgoing.on('close', () => {
      if (!outgoing.writableFinished) hungUp()
    })
    void readRequest(incoming).then(async (request) => {
      const act = script[Math.min(requests.length, script.length - 1)]
      requests.push(request)
      request.invalid = speech.check(request)
      if (request.invalid !== undefined) refuse(speech, outgoing, { status: 400, message: request.invalid })
      else if (act !== undefined) await perform(speech, act, outgoing, modelOf(request))
    })
  }
  const server =
    certificate === undefined ? createServer(serve) : createSecureServer({ ...certificate }, serve)
  const scheme = certificate === undefined ? 'http' : 'https'
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  return {
    baseUrl: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}${speech.basePath}`,
    requests,
    hangUp,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Returns the frame of an event, with or without a name. */
export function frame(data: unknown, name?: string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data)
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`
}

async function perform(
  speech: ScriptedAnswer,
  act: Act,
  outgoing: ServerResponse,
  model: string,
): Promise<void> {
  const whole = (text: string) => speech.answer({ kind: 'text', text }, model)
  switch (act.kind) {
    case 'text':
    case 'tool_call':
      begin(outgoing).end(speech.answer(act, model).join(''))
      return
    case 'refuse':
      refuse(speech, outgoing, act)
      return
    case 'error_event':
      begin(outgoing).end(beginning(whole(act.text), act.text) + speech.errorFrame(act.message))
      return
    case 'break':
      begin(outgoing).write(beginning(whole(act.text), act.text), () => outgoing.destroy())
      return
    case 'cut':
      begin(outgoing).end(beginning(whole(act.text), act.text))
      return
    case 'hang':
      begin(outgoing).write(beginning(whole(act.text), act.text))
      return
    case 'drip':
      await drip(begin(outgoing), Buffer.from(whole(act.text).join('')), act.everyMs)
      return
    case 'silence':
      return
    case 'redirect':
      outgoing.writeHead(307, { location: act.location }).end()
      return
    case 'raw':
      begin(outgoing, act.headers).end(act.body)
      return
    case 'endless_event':
      await flood(begin(outgoing))
      return
    case 'slam':
      outgoing.destroy()
  }
}

/** Returns the frames up to and including the one with the text. */
function beginning(frames: readonly string[], text: string): string {
  const last = frames.findIndex((each) => each.includes(JSON.stringify(text)))
  return frames.slice(0, last + 1).join('')
}

function begin(outgoing: ServerResponse, headers: Readonly<Record<string, string>> = {}): ServerResponse {
  return outgoing.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...headers })
}

function refuse(
  speech: ScriptedAnswer,
  outgoing: ServerResponse,
  refusal: Omit<Extract<Act, { kind: 'refuse' }>, 'kind'>,
): void {
  const body = refusal.body ?? speech.errorBody(refusal.status, refusal.message ?? 'no')
  outgoing.writeHead(refusal.status, { 'content-type': 'application/json', ...refusal.headers }).end(body)
}

async function drip(outgoing: ServerResponse, bytes: Buffer, everyMs: number): Promise<void> {
  for (const byte of bytes) {
    if (outgoing.destroyed) return
    outgoing.write(Buffer.from([byte]))
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
  outgoing.end()
}

async function flood(outgoing: ServerResponse): Promise<void> {
  const piece = 'x'.repeat(256 * 1024)
  const closed = new AbortController()
  outgoing.once('close', () => closed.abort())
  const { signal } = closed
  outgoing.write('data: "')
  while (!outgoing.destroyed)
    if (!outgoing.write(piece)) await once(outgoing, 'drain', { signal }).catch(() => {})
}

async function readRequest(incoming: IncomingMessage): Promise<SeenRequest> {
  const pieces: Buffer[] = []
  for await (const piece of incoming) pieces.push(piece as Buffer)
  const rawBody = Buffer.concat(pieces).toString('utf8')
  return { path: incoming.url ?? '', headers: incoming.headers, rawBody, body: JSON.parse(rawBody) }
}

function modelOf(request: SeenRequest): string {
  return request.body.model ?? /\/models\/([^:]+):/.exec(request.path)?.[1] ?? 'unknown'
}
