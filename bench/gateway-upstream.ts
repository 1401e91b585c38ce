/**
 * A separate process that answers at once, like a model provider: with a whole body, a stream, or a stream that never
 * ends.
 */
import { createServer } from 'node:http'
import { listen } from './gateway-process.ts'

const USAGE = { input_tokens: 20, output_tokens: 30 }
const WHOLE = JSON.stringify({
  type: 'message',
  model: 'm',
  content: [{ type: 'text', text: 'hello' }],
  usage: USAGE,
})
const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const START = event({ type: 'message_start', message: { model: 'm', usage: USAGE } } as never)
const DELTA = event({
  type: 'content_block_delta',
  index: 0,
  delta: { type: 'text_delta', text: 'hello' },
} as never)
const REST = [
  ...Array.from({ length: 10 }, () => DELTA),
  event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: USAGE } as never),
  event({ type: 'message_stop' }),
].join('')

await listen(
  createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      if (!body.includes('"stream":true')) {
        response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': WHOLE.length })
          .end(WHOLE)
        return
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(START)
      if (body.includes('forever')) return
      response.end(REST)
    })
  }),
)
