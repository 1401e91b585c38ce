import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { startIssuer } from '../accounts/issuer.ts'
import { TestHome } from '../craik.ts'

it('craik accounts lists the logins, what a sandbox gets of them, and damaged ones, and prints no value', async () => {
  using home = new TestHome()
  const person = join(home.folder, 'person')
  put(
    join(person, '.claude/.credentials.json'),
    claude('made-up-access', 'made-up-refresh', Date.now() + 3_600_000),
  )
  put(join(person, '.codex/auth.json'), '{"tokens":{"access_')
  const env = {
    HOME: person,
    PATH: '/nonexistent',
    OPENAI_API_KEY: 'made-up-key',
    GITHUB_TOKEN: 'made-up-never',
  }
  const listed = await home.run(['accounts', '--format', 'json'], { env })
  expect(listed.code).toBe(0)
  expect(JSON.parse(listed.stdout)).toMatchObject([
    {
      id: 'claude-code',
      status: 'ready',
      in_sandbox: { place: '~/.claude/.credentials.json', sentinel: true },
    },
    { id: 'env/OPENAI_API_KEY', family: 'openai', billing: 'metered' },
    { id: 'codex', status: 'skipped', hint: 'log in again:  codex login' },
  ])
  const shown = await home.run(['accounts', '--format', 'table'], { env })
  expect(shown.stdout).toContain('codex: ~/.codex/auth.json is damaged or half-written')
  expect(listed.stdout + shown.stdout + listed.stderr + shown.stderr).not.toContain('made-up')
  const checked = await home.run(['accounts', '--check', '--format', 'json'], { env })
  expect(checked.code).toBe(69)
  expect(JSON.parse(checked.stdout).map(({ status }: { status: string }) => status)).toEqual([
    'ok',
    'ok',
    'skipped',
  ])
  expect(readFileSync(join(person, '.codex/auth.json'), 'utf8')).toBe('{"tokens":{"access_')
})

it('craik accounts without a login lists the searched locations, and how to log in', async () => {
  using home = new TestHome()
  const env = { HOME: join(home.folder, 'person'), PATH: '/nonexistent', CODEX_HOME: '/elsewhere' }
  const { code, stdout } = await home.run(['accounts', '--format', 'table'], { env })
  expect(code).toBe(0)
  expect(stdout).toContain('claude-code  log in    claude /login\n')
  expect(stdout).toContain('searched  ~/.claude/.credentials.json\n')
  expect(stdout).toContain('searched  /elsewhere/auth.json\n')
  expect(stdout).toContain('craik secret set ANTHROPIC_API_KEY')
  expect(await home.run(['accounts', '--format', 'json'], { env })).toMatchObject({ stdout: '[]\n' })
  expect(await home.run(['accounts', '--check'], { env })).toMatchObject({ code: 0 })
})

it('craik accounts --check refreshes an expired login at the issuer that config names, with a receipt', async () => {
  using home = new TestHome()
  await using issuer = await startIssuer()
  const person = join(home.folder, 'person')
  const pair = issuer.login()
  const file = join(person, '.claude/.credentials.json')
  put(file, claude(pair.access_token, pair.refresh_token, Date.now() - 1))
  put(join(home.home, 'config/accounts.yaml'), `claude-code:\n  token_url: ${issuer.tokenUrl}\n`)
  const authority = join(home.folder, 'authority.pem')
  put(authority, issuer.authority)
  const env = { HOME: person, NODE_EXTRA_CA_CERTS: authority }
  const checked = await home.run(['accounts', '--check', '--format', 'json'], { env })
  expect(JSON.parse(checked.stdout)).toMatchObject([{ id: 'claude-code', status: 'ok' }])
  expect(checked.code).toBe(0)
  const token = JSON.parse(readFileSync(file, 'utf8')).claudeAiOauth.accessToken
  expect(issuer.isAlive(token)).toBe(true)
  const receipts = await home.run(['receipts', 'list', '--format', 'jsonl'], { env })
  expect(receipts.stdout).toContain('account/claude-code')
  expect(receipts.stdout).not.toContain(token)
  expect((await home.run(['receipts', 'verify'], { env })).code).toBe(0)

  issuer.broken = { status: 400, text: '{"error":"invalid_grant"}' }
  put(file, claude('made-up-access', 'made-up-refresh', Date.now() - 1))
  const ended = await home.run(['accounts', '--check', '--format', 'json'], { env })
  expect(JSON.parse(ended.stdout)[0]).toMatchObject({
    status: 'unavailable',
    hint: 'log in again:  claude /login',
  })
  expect(ended.code).toBe(69)
  // Craik sends no request: it has recorded that the issuer refused these same tokens.
  issuer.broken = { status: 500, text: '' }
  const known = await home.run(['accounts', '--format', 'json'], { env })
  expect(known.code).toBe(0)
  expect(JSON.parse(known.stdout)).toMatchObject([{ id: 'claude-code', status: 'ended', in_sandbox: null }])
  const next = issuer.login()
  put(file, claude(next.access_token, next.refresh_token, Date.now() + 3_600_000))
  const after = await home.run(['accounts', '--format', 'json'], { env })
  expect(JSON.parse(after.stdout)).toMatchObject([{ id: 'claude-code', status: 'ready' }])
  put(join(home.home, 'config/accounts.yaml'), 'claude-code:\n  token_url: http://127.0.0.1/token\n')
  expect((await home.run(['accounts'], { env })).code).toBe(78)
})

function claude(accessToken: string, refreshToken: string, expiresAt: number): string {
  return JSON.stringify({
    claudeAiOauth: { accessToken, refreshToken, expiresAt, scopes: ['user:inference'] },
  })
}

function put(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(path, content, { mode: 0o600 })
}
