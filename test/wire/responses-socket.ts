/**
 * A server that speaks OpenAI Responses over WebSocket. It validates requests, remembers its last response, and follows
 * a script.
 */
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Certificate } from './certificate.ts'

/** The response to one message. */
export type SocketAct =
  | {
      readonly kind: 'text'
      readonly text: string
      readonly usage?: { readonly input: number; readonly output: number } | 'none'
    }
  /** Sent unchanged: a string as a text message, bytes as a binary message. */
  | { readonly kind: 'raw'; readonly messages: readonly (string | Buffer)[] }
  /** Sends text, then destroys the connection. */
  | { readonly kind: 'break'; readonly text: string }
  /** Sends text, then nothing more. */
  | { readonly kind: 'hang'; readonly text: string }
  | { readonly kind: 'silence' }
  /** Sends text without end, for as long as the client reads. */
  | { readonly kind: 'flood' }

/** The response to an upgrade request, other than accepting it. */
export type UpgradeAct =
  | { readonly status: number; readonly body?: string }
  | { readonly headers: Readonly<Record<string, string>> }

interface SeenMessage {
  readonly connection: number
  readonly raw: string
  // biome-ignore lint/suspicious/noExplicitAny: whatever was sent, for tests to look into
  readonly body: any
}

export interface SocketServer extends AsyncDisposable {
  readonly baseUrl: string
  readonly upgrades: readonly { readonly path: string; readonly headers: IncomingMessage['headers'] }[]
  readonly messages: readonly SeenMessage[]
  /** Returns the number of bytes of a flood that were sent or are queued. */
  readonly flooded: () => number
  /** Resolves when the client closes a connection. */
  readonly hangUp: Promise<void>
  /** Closes the open connections, as a provider does after an hour. */
  dropAll(): void
  /** Sends a text to all open connections. */
  say(text: string): void
}

export async function startResponsesSocket(
  script: readonly SocketAct[],
  certificate: Certificate,
  upgradeScript: readonly (UpgradeAct | 'accept')[] = ['accept'],
): Promise<SocketServer> {
  const upgrades: { path: string; headers: IncomingMessage['headers'] }[] = []
  const messages: SeenMessage[] = []
  const open = new Set<WebSocket>()
  const hungUp = Promise.withResolvers<void>()
  let answers = 0
  let flooded = 0
  const server = createServer({ ...certificate }, (_, response) => response.writeHead(404).end('{}'))
  server.on('upgrade', (request, stream, head) => {
    const act = upgradeScript[Math.min(upgrades.length, upgradeScript.length - 1)]!
    upgrades.push({ path: request.url ?? '', headers: request.headers })
    stream.on('error', () => {})
    if (act !== 'accept' && 'status' in act) {
      const { status, body = '{}' } = act
      stream.end(
        `HTTP/1.1 ${status} No\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      )
      return
    }
    const sockets = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024 * 1024 })
    const added = act === 'accept' ? {} : act.headers
    sockets.once('headers', (lines) => {
      for (const [name, value] of Object.entries(added)) lines.push(`${name}: ${value}`)
    })
    const connection = upgrades.length
    sockets.handleUpgrade(request, stream, head, (socket) => serve(socket, connection))
  })
  const serve = (socket: WebSocket, connection: number) => {
    open.add(socket)
    let last: string | undefined
    socket.on('error', () => {})
    socket.once('close', () => {
      open.delete(socket)
      hungUp.resolve()
    })
    socket.on('message', (data: Buffer) => {
      const raw = data.toString('utf8')
      const body = JSON.parse(raw)
      const act = script[Math.min(messages.length, script.length - 1)]!
      messages.push({ connection, raw, body })
      const problem = problemOf(body, last)
      if (problem !== undefined) {
        socket.send(JSON.stringify({ type: 'error', status: 400, error: problem }))
        return
      }
      const id = `resp_${++answers}`
      if (perform(socket, act, id, body)) last = id
    })
  }
  const perform = (socket: WebSocket, act: SocketAct, id: string, body: SeenMessage['body']): boolean => {
    const sendText = (text: string) => {
      for (const event of beginning(id, body.model, text)) socket.send(JSON.stringify(event))
    }
    switch (act.kind) {
      case 'text':
        if (body.generate !== false) sendText(act.text)
        socket.send(JSON.stringify(completedResponse(id, body, act)))
        return true
      case 'raw':
        for (const each of act.messages) socket.send(each)
        return false
      case 'break':
        sendText(act.text)
        setImmediate(() => socket.terminate())
        return false
      case 'hang':
        sendText(act.text)
        return false
      case 'silence':
        return false
      case 'flood': {
        const piece = JSON.stringify({ type: 'response.output_text.delta', delta: 'x'.repeat(64 * 1024) })
        const more = () => {
          if (socket.readyState !== socket.OPEN) return
          flooded += piece.length
          socket.send(piece, () => setImmediate(more))
        }
        more()
        return false
      }
    }
  }
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    baseUrl: `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    upgrades,
    messages,
    flooded: () => flooded,
    hangUp: hungUp.promise,
    dropAll() {
      for (const socket of open) socket.close(1000)
    },
    say(text) {
      for (const socket of open) socket.send(text)
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.terminate()
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

/** The server stores nothing: it accepts only the id of the last response on this connection. */
function problemOf(body: SeenMessage['body'], last: string | undefined) {
  const wrong = (code: string, message: string) => ({
    type: 'invalid_request_error',
    code,
    message,
    param: null,
  })
  if (body.type !== 'response.create') return wrong('invalid_type', `no such event: ${body.type}`)
  if (typeof body.model !== 'string') return wrong('missing_required_parameter', 'no model')
  const previous = body.previous_response_id ?? undefined
  if (previous !== undefined && previous !== last)
    return wrong('previous_response_not_found', `no answer ${previous}`)
  return undefined
}

function beginning(id: string, model: string, text: string): object[] {
  const response = { id, object: 'response', model, status: 'in_progress', usage: null }
  return [
    { type: 'response.created', response },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, delta: text },
  ]
}

function completedResponse(
  id: string,
  body: SeenMessage['body'],
  { text, usage = { input: 100, output: 20 } }: Extract<SocketAct, { kind: 'text' }>,
): object {
  const counts = (input: number, output: number) => ({
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
  })
  const isWarmUp = body.generate === false
  const content = [{ type: 'output_text', text, annotations: [] }]
  const output = isWarmUp ? [] : [{ type: 'message', id: 'msg_1', role: 'assistant', content }]
  const used = usage === 'none' ? null : isWarmUp ? counts(0, 0) : counts(usage.input, usage.output)
  const response = { id, object: 'response', model: body.model, status: 'completed', output, usage: used }
  return { type: 'response.completed', response }
}
