/**
 * `craik gateway` over WebSocket: it checks the token and its own host name in the same way, and ends in the same way.
 */
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { TestHome } from '../craik.ts'
import { huntLeaks } from '../leaks/hunt.ts'
import { selfSigned } from '../wire/certificate.ts'
import { startResponsesSocket } from '../wire/responses-socket.ts'
import { startCraik } from './interactive-user.ts'

const KEY = 'sk-proj-made-up-for-the-gateway-over-websocket'
const CREATE = { type: 'response.create', model: 'gpt-x', input: 'hello', max_output_tokens: 64 }

it('craik gateway relays a WebSocket for clients with its token, under its own host name only, and exits while it is open', async () => {
  using home = new TestHome()
  const certificate = selfSigned(['127.0.0.1'])
  await using upstream = await startResponsesSocket([{ kind: 'text', text: 'hello back' }], certificate)
  mkdirSync(join(home.home, 'config'), { recursive: true, mode: 0o700 })
  const accounts = `env/OPENAI_API_KEY:\n  base_url: ${upstream.baseUrl}\n`
  writeFileSync(join(home.home, 'config/accounts.yaml'), accounts, { mode: 0o600 })
  writeFileSync(join(home.folder, 'authority.pem'), certificate.cert)
  const running = startCraik(home, ['gateway', '--format', 'jsonl'], {
    OPENAI_API_KEY: KEY,
    NODE_EXTRA_CA_CERTS: join(home.folder, 'authority.pem'),
  })
  await running.waitForText('\n')
  const { url, token_file } = JSON.parse(running.stdout()) as {
    readonly url: string
    readonly token_file: string
  }
  const token = readFileSync(token_file, 'utf8').trim()
  const { port } = new URL(url)
  const dial = (headers: Record<string, string>) =>
    new WebSocket(`${url.replace(/^http/, 'ws')}/v1/responses`, { headers }).on('error', () => {})
  const refusedStatus = async (headers: Record<string, string>) => {
    const [, { statusCode }] = await once(dial(headers), 'unexpected-response')
    return statusCode
  }

  expect(await refusedStatus({})).toBe(401)
  expect(await refusedStatus({ authorization: `Bearer ${KEY}` })).toBe(401)
  expect(await refusedStatus({ authorization: `Bearer ${token}`, host: `rebound.example:${port}` })).toBe(403)
  expect(upstream.upgrades).toEqual([])

  const socket = dial({ authorization: `Bearer ${token}` })
  await once(socket, 'open')
  const events: string[] = []
  const completed = new Promise<void>((done) => {
    socket.on('message', (data) => {
      events.push(String(data))
      if (String(data).includes('response.completed')) done()
    })
  })
  socket.send(JSON.stringify(CREATE))
  await completed
  expect(events.join('')).toContain('hello back')
  expect(upstream.upgrades.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${KEY}`])
  expect(upstream.messages.map(({ body }) => body)).toEqual([CREATE])

  const closed = once(socket, 'close')
  running.child.kill('SIGINT')
  expect((await running.ended).code).toBe(0)
  await closed
  await upstream.hangUp
  const receipts = (await home.run(['receipts', 'list', '--format', 'jsonl'])).stdout
  expect(await home.run(['receipts', 'verify', '--replay'])).toMatchObject({ code: 0 })
  expect(huntLeaks({ secrets: [KEY, token], folders: [home.home], texts: { receipts } })).toEqual([])
})
