/**
 * A program in a sandbox that sends requests that are expensive to read: 33 MB of JSON numbers in 32 KB of gzip, on
 * four connections at once. It imports nothing of Craik.
 *
 * - `node hostile-bodies.ts ROUNDS` prints one line of JSON with each reply.
 * - `node hostile-bodies.ts until-stop` continues until a file `stop` exists.
 *
 * With `large` as the next argument, the bodies stay just below the gateway's limits: 31 MB and 900,000 values in 700
 * KB. With `plain`, they are the longest that the main thread scans.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { gzipSync } from 'node:zlib'

const CONNECTIONS = 4
const [how = '1', size] = process.argv.slice(2)
const VALUES =
  size === 'large'
    ? `"${randomBytes(600_000).toString('hex')}","${'\\n'.repeat(14_000_000)}",${'1,'.repeat(900_000)}`
    : '1,'.repeat(16_500_000)
const START = '{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"x":['
/** Brackets take a scanner the longest for their length. */
const NESTED = `${'['.repeat(150)}${']'.repeat(150)},`.repeat(488)
const isPlain = size === 'plain'
const BODY = isPlain ? Buffer.from(`${START}${NESTED}1]}`) : gzipSync(`${START}${VALUES}1]}`)
const { hostname, port } = new URL(process.env.ANTHROPIC_BASE_URL!)

interface Reply {
  readonly status: number
  readonly text: string
}

function ask(agent: Agent): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<Reply>()
  const headers = { 'content-type': 'application/json', ...(!isPlain && { 'content-encoding': 'gzip' }) }
  const sent = request(
    { hostname, port, agent, method: 'POST', path: '/v1/messages', headers },
    (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.once('end', () => resolve({ status: response.statusCode!, text: text.slice(0, 500) }))
    },
  )
  sent.once('error', (error) => resolve({ status: 0, text: String(error) }))
  sent.end(BODY)
  return promise
}

writeFileSync('hostile-has-begun', '')
await Promise.all(
  Array.from({ length: CONNECTIONS }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let round = 0; how === 'until-stop' ? !existsSync('stop') : round < Number(how); round++)
      process.stdout.write(`${JSON.stringify(await ask(agent))}\n`)
    agent.destroy()
  }),
)
