/** The least that a proxy in Node can do: it forwards the same request and pipes the response back. */
import { createServer } from 'node:http'
import { Pool } from 'undici'
import { listen } from './gateway-process.ts'

const upstream = new Pool(process.argv[2]!, { connections: 512, pipelining: 1 })

await listen(
  createServer((request, response) => {
    void upstream
      .request({
        path: request.url!,
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': 'bench-key-0123456789' },
        body: request,
      })
      .then(({ statusCode, headers, body }) => {
        response.writeHead(statusCode, { 'content-type': String(headers['content-type']) })
        body.pipe(response)
        response.once('close', () => body.destroy())
        body.on('error', () => response.destroy())
      })
  }),
)
