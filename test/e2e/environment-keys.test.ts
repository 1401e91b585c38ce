import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { NODE_INSIDE } from '../gateway/login-scene.ts'
import { huntLeaks } from '../leaks/hunt.ts'
import { SandboxHome } from '../sandbox-home.ts'
import { startAnthropic } from '../wire/anthropic.ts'
import { selfSigned } from '../wire/certificate.ts'

const KEY = 'sk-ant-api03-made-up-in-the-environment'
const OTHER = 'sk-ant-api03-made-up-in-another-terminal'

const PROMPT = JSON.stringify({
  model: 'claude-sonnet-4-5',
  max_tokens: 64,
  stream: true,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }],
})
const ASK = `
fetch(process.env.ANTHROPIC_BASE_URL + '/v1/messages', {
  method: 'POST',
  headers: {
    'content-type': 'application/json', 'anthropic-version': '2023-06-01',
    ...(process.env.ANTHROPIC_API_KEY && { 'x-api-key': process.env.ANTHROPIC_API_KEY }),
  },
  body: ${JSON.stringify(PROMPT)},
}).then(async (answer) => console.log(answer.status, process.env.ANTHROPIC_API_KEY, await answer.text()))`

it('a key in the environment of craik sandbox create works in the sandbox, and exists only in the supervisor’s memory', async () => {
  await using home = await SandboxHome.open({ identity: 'root' })
  const certificate = selfSigned(['127.0.0.1'])
  await using upstream = await startAnthropic([{ kind: 'text', text: 'hello back' }], certificate)
  mkdirSync(join(home.home, 'config'), { mode: 0o700 })
  put(join(home.home, 'config/accounts.yaml'), `env/ANTHROPIC_API_KEY:\n  base_url: ${upstream.baseUrl}\n`)
  const authority = home.path('authority.pem')
  put(authority, certificate.cert)
  const NODE_EXTRA_CA_CERTS = authority
  const create = ['sandbox', 'create', '--format', 'json']
  const asFirst = { env: { NODE_EXTRA_CA_CERTS, ANTHROPIC_API_KEY: KEY, GITHUB_TOKEN: KEY } }
  const { id } = await home.json<{ id: string }>(create, asFirst)
  const ask = async (env: Record<string, string> = {}) =>
    home.run(['sandbox', 'exec', id, '--', NODE_INSIDE, '-e', ASK], { env })

  const first = await ask()
  expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/^200 sk-ant-api03-.*hello back/s) })
  expect(first.stdout).not.toContain(KEY)
  expect(upstream.requests.map(({ headers }) => headers['x-api-key'])).toEqual([KEY])

  // A key from another terminal replaces the earlier key. A missing key replaces nothing.
  const both = {
    env: { NODE_EXTRA_CA_CERTS, ANTHROPIC_API_KEY: ` ${OTHER}\n`, OPENAI_API_KEY: 'no key\x01' },
  }
  expect(await home.json(['sandbox', 'logins', id], both)).toEqual({
    logins: ['opencode_token'],
    offered_keys: ['ANTHROPIC_API_KEY'],
    notice: null,
  })
  await home.json(create)
  expect((await ask({ ANTHROPIC_API_KEY: KEY })).code).toBe(0)
  expect(upstream.requests.map(({ headers }) => headers['x-api-key'])).toEqual([KEY, OTHER])

  const texts = {
    receipts: (await home.run(['receipts', 'list', '--format', 'jsonl'])).stdout,
    log: readFileSync(join(home.home, 'state/supervisor.log'), 'utf8'),
    status: (await home.run(['supervisor', 'status', '--format', 'json'])).stdout,
  }
  const root = rootOf(id)
  const except = [join(home.home, 'cache'), join(root, 'usr'), join(root, 'opt')]
  // The hunt includes processes with their environments and command lines: the supervisor, and those in the sandbox.
  expect(huntLeaks({ secrets: [KEY, OTHER], folders: [home.home, root], except, texts })).toEqual([])

  expect(await home.json(['sandbox', 'logins', id])).toEqual({ logins: [], offered_keys: [], notice: null })
  const after = await ask()
  expect(after.stdout).toMatch(/^(?!200)\d{3} undefined/)
  expect(upstream.requests.length).toBe(2)
  // The next start offers the key again, also to a supervisor that never had it.
  await home.json(['sandbox', 'stop', id])
  await home.run(['supervisor', 'stop'])
  await home.json(['sandbox', 'resume', id], asFirst)
  expect((await ask()).stdout).toMatch(/^200 /)
  expect(upstream.requests.at(-1)?.headers['x-api-key']).toBe(KEY)
  expect(await home.run(['receipts', 'verify', '--replay'])).toMatchObject({ code: 0 })
})

it('a running supervisor sends a key only where the current config/accounts.yaml says, and nowhere while that is invalid', async () => {
  await using home = await SandboxHome.open({ identity: 'root' })
  const certificate = selfSigned(['127.0.0.1'])
  const replies = Array.from({ length: 4 }, () => ({ kind: 'text', text: 'hello back' }) as const)
  await using before = await startAnthropic(replies, certificate)
  await using after = await startAnthropic(replies, certificate)
  const configure = (text: string) => home.configure('accounts.yaml', text)
  const addressOf = (baseUrl: string) => `env/ANTHROPIC_API_KEY:\n  base_url: ${baseUrl}\n`
  configure(addressOf(before.baseUrl))
  const authority = home.path('authority.pem')
  put(authority, certificate.cert)
  const env = { NODE_EXTRA_CA_CERTS: authority, ANTHROPIC_API_KEY: KEY }
  const { id } = await home.json<{ id: string }>(['sandbox', 'create', '--format', 'json'], { env })
  const ask = async () => (await home.run(['sandbox', 'exec', id, '--', NODE_INSIDE, '-e', ASK])).stdout
  const countRequests = () => [before.requests.length, after.requests.length]

  expect(await ask()).toMatch(/^200 /)
  expect(countRequests()).toEqual([1, 0])
  configure(addressOf(after.baseUrl))
  expect(await ask()).toMatch(/^200 /)
  expect(countRequests()).toEqual([1, 1])

  for (const damaged of ['env/ANTHROPIC_API_KEY: [', addressOf('http://127.0.0.1:1/v1')]) {
    configure(damaged)
    const refused = await ask()
    expect(refused).toMatch(/^500 /)
    expect(refused).toContain('config/accounts.yaml')
    const logins = await home.run(['sandbox', 'logins', id], { env })
    expect(logins.stdout + logins.stderr).toContain('config/accounts.yaml')
    expect(countRequests()).toEqual([1, 1])
  }
  configure(addressOf(before.baseUrl))
  expect(await ask()).toMatch(/^200 /)
  expect(countRequests()).toEqual([2, 1])
})

/**
 * Returns the root of a sandbox as its processes see it. The program that sets up the sandbox sees the host's root
 * instead.
 */
function rootOf(id: string): string {
  const own = readlinkSync('/proc/self/ns/mnt')
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const isOurs = readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(id)
      const isInside = existsSync(`/proc/${pid}/root${NODE_INSIDE}`)
      if (isOurs && isInside && readlinkSync(`/proc/${pid}/ns/mnt`) !== own) return `/proc/${pid}/root`
    } catch {
      // The process exited in the meantime.
    }
  }
  throw new Error(`nothing runs in ${id}`)
}

function put(path: string, content: string): void {
  writeFileSync(path, content, { mode: 0o600 })
}
