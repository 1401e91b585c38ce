/** A local model server like that of a user: it lists its models, and follows a script in a real wire format. */
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startChatCompletions } from './wire/chat-completions.ts'
import type { Act, SeenRequest } from './wire/wire-server.ts'

export interface LocalModel extends AsyncDisposable {
  readonly baseUrl: string
  readonly requests: readonly SeenRequest[]
}

export async function startLocalModel(script: readonly Act[]): Promise<LocalModel> {
  const wire = await startChatCompletions(script, { key: false })
  const front = createServer((incoming, outgoing) => {
    if (incoming.method === 'GET') {
      outgoing.writeHead(200, { 'content-type': 'application/json' })
      outgoing.end(JSON.stringify({ object: 'list', data: [{ id: 'llama3.2', object: 'model' }] }))
      return
    }
    const { method, headers } = incoming
    const onward = request(new URL(incoming.url!, wire.baseUrl), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    onward.on('error', () => outgoing.destroy())
    outgoing.on('close', () => onward.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>((done) => front.listen(0, '127.0.0.1', done))
  return {
    baseUrl: `http://127.0.0.1:${(front.address() as AddressInfo).port}/v1`,
    requests: wire.requests,
    async [Symbol.asyncDispose]() {
      front.closeAllConnections()
      front.close()
      await wire.close()
    },
  }
}
