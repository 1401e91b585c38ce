import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { TestHome } from '../craik.ts'
import { huntLeaks } from '../leaks/hunt.ts'
import { startAnthropic } from '../wire/anthropic.ts'
import { selfSigned } from '../wire/certificate.ts'
import { startCraik } from './interactive-user.ts'

const KEY = 'sk-ant-api03-made-up-for-the-gateway-command'

interface Opened {
  readonly url: string
  readonly token_file: string
  readonly accounts: readonly string[]
  readonly grant_id: string
  readonly run_id: string
}

const PROMPT = {
  model: 'claude-sonnet-4-5',
  max_tokens: 64,
  stream: true,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }],
}

it('craik gateway serves its listed logins to clients with its token, under its own host name only, and its grant ends with it', async () => {
  using home = new TestHome()
  const certificate = selfSigned(['127.0.0.1'])
  await using upstream = await startAnthropic([{ kind: 'text', text: 'hello back' }], certificate)
  put(join(home.home, 'config/accounts.yaml'), `env/ANTHROPIC_API_KEY:\n  base_url: ${upstream.baseUrl}\n`)
  put(join(home.folder, 'authority.pem'), certificate.cert)
  const person = join(home.folder, 'person')
  put(join(person, '.config/gh/hosts.yml'), 'github.com:\n    oauth_token: gho_made_up_for_nobody\n')
  const listed = await home.json<{ id: string }[]>(['accounts', '--format', 'json'], {
    env: { HOME: person, ANTHROPIC_API_KEY: KEY },
  })
  expect(listed.map(({ id }) => id)).toEqual(['github', 'env/ANTHROPIC_API_KEY'])
  const running = startCraik(home, ['gateway', '--format', 'jsonl'], {
    HOME: person,
    ANTHROPIC_API_KEY: KEY,
    NODE_EXTRA_CA_CERTS: join(home.folder, 'authority.pem'),
  })
  await running.waitForText('\n')
  const opened = JSON.parse(running.stdout()) as Opened
  expect(opened.accounts).toEqual(['env/ANTHROPIC_API_KEY'])
  expect(statSync(opened.token_file).mode & 0o777).toBe(0o600)
  const token = readFileSync(opened.token_file, 'utf8').trim()
  expect(running.stdout()).not.toContain(token)

  const answer = await ask(opened.url, { 'x-api-key': token })
  expect(answer).toMatchObject({ status: 200, text: expect.stringContaining('hello back') })
  expect((await ask(opened.url, { authorization: `Bearer ${token}` })).status).toBe(200)
  expect(upstream.requests.map(({ headers }) => headers['x-api-key'])).toEqual([KEY, KEY])
  expect(JSON.stringify(upstream.requests)).not.toContain(token)

  expect((await ask(opened.url, {})).status).toBe(401)
  expect((await ask(opened.url, { 'x-api-key': KEY })).status).toBe(401)
  expect((await ask(opened.url, { 'x-api-key': token, authorization: 'Bearer another' })).status).toBe(401)
  const { port } = new URL(opened.url)
  expect((await ask(opened.url, { 'x-api-key': token, host: `rebound.example:${port}` })).status).toBe(403)
  expect(await connectThrough(opened.url, undefined)).toBe(407)
  expect(await connectThrough(opened.url, `Basic ${btoa(`craik:${token}`)}`)).toBe(403)
  expect(upstream.requests.length).toBe(2)

  running.child.kill('SIGINT')
  const { code, stderr } = await running.ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'craik: requests refused without a valid token: 5\n' })
  expect(existsSync(opened.token_file)).toBe(false)
  expect((await home.json<{ state: string }>(['grant', 'show', opened.grant_id])).state).toBe('revoked')
  const receipts = (await home.run(['receipts', 'list', '--format', 'jsonl'])).stdout
  expect(receipts).toContain(opened.run_id)
  expect(receipts).toContain('example.org:443')
  expect(await home.run(['receipts', 'verify', '--replay'])).toMatchObject({ code: 0 })
  expect(huntLeaks({ secrets: [KEY, token], folders: [home.home], texts: { receipts } })).toEqual([])
})

it('craik gateway stops after the time in --for, and reports when a port is in use', async () => {
  using home = new TestHome()
  const first = startCraik(home, ['gateway', '--format', 'jsonl'])
  await first.waitForText('\n')
  const { port } = new URL((JSON.parse(first.stdout()) as Opened).url)
  const second = await home.run(['gateway', '--port', port])
  expect(second).toMatchObject({ code: 69, stdout: '' })
  expect(second.stderr).toContain(`cannot listen on 127.0.0.1:${port} (EADDRINUSE)`)
  first.child.kill('SIGTERM')
  expect((await first.ended).code).toBe(0)
  const brief = await home.run(['gateway', '--for', '2s', '--format', 'table'])
  expect(brief).toMatchObject({ code: 0, stderr: 'craik: stopped after 2 s\n' })
  expect(brief.stdout).toContain('export ANTHROPIC_BASE_URL=http://127.0.0.1:')
  const grants = await home.json<readonly { state: string }[]>(['grant', 'list'])
  expect(grants.filter(({ state }) => state === 'usable')).toEqual([])
})

function ask(url: string, headers: Record<string, string>): Promise<{ status: number; text: string }> {
  return new Promise((done, fail) => {
    const sent = request(`${url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
    })
    sent.on('error', fail)
    sent.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece
      })
      response.on('end', () => done({ status: response.statusCode!, text }))
    })
    sent.end(JSON.stringify(PROMPT))
  })
}

/** Returns the status of the response to a CONNECT. */
function connectThrough(url: string, authorization: string | undefined): Promise<number> {
  const { hostname, port } = new URL(url)
  return new Promise((done, fail) => {
    const sent = request({
      hostname,
      port,
      method: 'CONNECT',
      path: 'example.org:443',
      headers: authorization === undefined ? {} : { 'proxy-authorization': authorization },
    })
    sent.on('connect', ({ statusCode = 0 }, socket) => {
      socket.destroy()
      done(statusCode)
    })
    sent.on('error', fail)
    sent.end()
  })
}

function put(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(path, content, { mode: 0o600 })
}
