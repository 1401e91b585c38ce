/**
 * The WebSocket of a provider with the Responses format. A message contains only new items. The server puts the items
 * that it refers to before them, so that the answerer receives the whole conversation, as in an HTTP request.
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'

// biome-ignore lint/suspicious/noExplicitAny: what agents send is looked at, not checked; the gateway's tests check it.
type Item = any

/** `answer` receives the body of a request and returns events in the format of a stream. */
export function acceptSocket(
  request: IncomingMessage,
  stream: Duplex,
  head: Buffer,
  answer: (body: string) => Promise<string>,
): void {
  const server = new WebSocketServer({ noServer: true })
  server.handleUpgrade(request, stream, head, (socket) => {
    const known = new Map<string, readonly Item[]>()
    let ready = 0
    socket.on('error', () => {})
    socket.on('message', async (data: Buffer) => {
      const { type: _, previous_response_id: previous, generate, ...requested } = JSON.parse(String(data))
      const before = previous === undefined ? [] : known.get(previous)
      const say = (event: unknown) => socket.send(JSON.stringify(event))
      if (before === undefined) {
        const error = {
          type: 'invalid_request_error',
          code: 'previous_response_not_found',
          message: 'no such answer',
        }
        say({ type: 'error', status: 400, error })
        return
      }
      const input = [...before, ...requested.input]
      if (generate === false) {
        const id = `resp_ready_${ready++}`
        const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }
        known.set(id, input)
        say({
          type: 'response.completed',
          response: { id, object: 'response', status: 'completed', output: [], usage },
        })
        return
      }
      for (const line of (await answer(JSON.stringify({ ...requested, input, stream: true }))).split('\n')) {
        if (!line.startsWith('data: ')) continue
        const event = JSON.parse(line.slice('data: '.length))
        if (event.type === 'response.completed')
          known.set(event.response.id, [...input, ...event.response.output])
        say(event)
      }
    })
  })
}
