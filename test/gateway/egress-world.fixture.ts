/**
 * A small internet in a network namespace with public addresses on the loopback device. Craik resolves names and
 * connects to addresses there as usual. Prints what programs in a sandbox tried, and the results.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Server } from 'node:net'
import { join } from 'node:path'
import { selfSigned } from '../wire/certificate.ts'
import { makeRepository, serveGit } from './git-server.ts'
import { LoginScene, NODE_INSIDE, randomToken } from './login-scene.ts'
import { startNameServer } from './name-server.ts'
import { PUBLIC } from './world.ts'

const NAMES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  ...Object.fromEntries(
    ['allowed', 'a.wild', 'store', 'forbidden', 'registry', 'index', 'git', 'ghe', 'redirect'].map((name) => [
      `${name}.example`,
      [[PUBLIC]],
    ]),
  ),
  'metadata.example': [['169.254.169.254']],
  'mapped.example': [['::ffff:10.0.0.1']],
  'mixed.example': [[PUBLIC, '10.0.0.1']],
  'rebind.example': [[PUBLIC], ['127.0.0.1']],
}
/** Addresses that no connection from a sandbox may reach. */
const TRAPS = ['127.0.0.1', '169.254.169.254', '10.0.0.1', '::1', 'fd00:ec2::254']

export interface EgressReport {
  readonly attacks: readonly {
    readonly name: string
    readonly isFoughtOff: boolean
    readonly answer: string
  }[]
  /** The result of each tool. */
  readonly tools: Readonly<Record<string, string>>
  /** Requests that a public server received during the attacks: `GET allowed.example /path`. */
  readonly seenOfAttacks: readonly string[]
  /** The forbidden addresses that a connection reached. */
  readonly trapped: readonly string[]
  readonly asked: readonly string[]
  /** Hosts that received the GitHub token. */
  readonly tokenSeenBy: readonly string[]
  readonly pushed: string
  readonly leaks: readonly string[]
  readonly receipts: readonly string[]
  readonly verified: number | null
}

async function listen(server: Server, host: string, port: number): Promise<Server> {
  await new Promise<void>((listening, fail) => server.once('error', fail).listen({ host, port }, listening))
  return server
}

async function main(folder: string): Promise<EgressReport> {
  const hosts = Object.keys(NAMES)
  const certificate = selfSigned(['127.0.0.1'], hosts)
  const token = randomToken('gho_')
  const [seen, trapped, tokenSeenBy]: [string[], string[], Set<string>] = [[], [], new Set()]
  const repositories = join(folder, 'repositories')
  mkdirSync(repositories)
  makeRepository(repositories)
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const { host = '', authorization = '' } = request.headers
    const basic = Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString()
    const hasToken = [authorization, basic].some((value) => value.includes(token))
    seen.push(`${request.method} ${host} ${request.url}`)
    if (hasToken) tokenSeenBy.add(host)
    if (host === 'ghe.example' && !hasToken) response.writeHead(401, { 'www-authenticate': 'Basic' }).end()
    else if (host === 'ghe.example' && request.url === '/api/v3/user')
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"login":"ada"}')
    else if (host === 'ghe.example' || host === 'git.example') serveGit(repositories, request, response)
    else if (host === 'redirect.example' || request.url === '/redirect')
      response.writeHead(302, { location: 'http://forbidden.example/secret' }).end()
    else if (host === 'registry.example') response.end(JSON.stringify(PACKAGE))
    else if (host === 'index.example') {
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end('<a href="leftpad-1.0.tar.gz">leftpad-1.0.tar.gz</a>')
    } else response.end('hello')
  }
  const names = await startNameServer(NAMES)
  const servers: Server[] = [
    await listen(createServer(serve), PUBLIC, 80),
    await listen(createSecureServer({ ...certificate }, serve), PUBLIC, 443),
  ]
  for (const address of TRAPS)
    for (const port of [80, 443]) {
      const trap = createServer().on('connection', (socket) => {
        trapped.push(`${address} ${port}`)
        socket.destroy()
      })
      servers.push(await listen(trap, address, port))
    }

  await using scene = await LoginScene.open({ identity: 'root' }, certificate)
  const { home } = scene
  scene.addSecret(token)
  scene.put('.config/gh/hosts.yml', `ghe.example:\n    oauth_token: ${token}\n    user: ada\n`)
  scene.configureAccounts({ github: { base_url: 'https://ghe.example/api/v3' } })
  const box = await scene.create(['--name', 'box'], (workspace) => {
    copyFileSync(join(import.meta.dirname, '../egress/attacks.ts'), join(workspace, 'attacks.ts'))
    writeFileSync(join(workspace, 'authority.pem'), certificate.cert)
  })
  const allow = async (...args: string[]) => {
    const { code, stderr } = await home.run(['egress', 'allow', ...args, '--sandbox', 'box'])
    if (code !== 0) throw new Error(stderr)
  }
  const both = ['allowed', 'rebind', 'mixed', 'metadata', 'mapped'].flatMap((name) => [
    `${name}.example`,
    `${name}.example:80`,
  ])
  await allow(
    ...both,
    '*.wild.example',
    'registry.example',
    'git.example',
    'redirect.example:80',
    'index.example',
  )
  await allow('store.example:80/bucket', '--method', 'GET')

  const ran = await box.exec([NODE_INSIDE, '--no-warnings', 'attacks.ts', '8118'])
  if (ran.code !== 0) throw new Error(ran.stdout + ran.stderr)
  const attacks = JSON.parse(ran.stdout) as EgressReport['attacks']
  const seenOfAttacks = [...seen]

  const authority = '/workspace/home/project/authority.pem'
  const env = {
    CURL_CA_BUNDLE: authority,
    NODE_EXTRA_CA_CERTS: authority,
    GIT_SSL_CAINFO: authority,
    PIP_CERT: authority,
    npm_config_cafile: authority,
    npm_config_registry: 'https://registry.example/',
    npm_config_fetch_retries: '0',
    GIT_TERMINAL_PROMPT: '0',
  }
  const tool = async (script: string) => {
    const { code, stdout, stderr } = await box.exec(['sh', '-c', script], { env, timeout_ms: 60_000 })
    return code === 0 ? stdout.trim() : `failed ${code}: ${(stdout + stderr).slice(-600)}`
  }
  const commit = 'git -c user.name=a -c user.email=a@b.invalid commit -q --allow-empty -m from-inside'
  const tools = {
    curl: await tool('curl -sS https://allowed.example/a'),
    'curl plain': await tool('curl -sS http://allowed.example/b'),
    'curl, forbidden': await tool('curl -sS https://forbidden.example/ || echo refused'),
    'curl, redirected': await tool(
      'curl -sSL -o answer -w "%{http_code}" http://redirect.example/; cat answer',
    ),
    'curl, rebound': await tool(
      'for i in 1 2 3; do curl -s -o /dev/null -w "%{http_code} " http://rebind.example/r; done',
    ),
    npm: await tool('command -v npm >/dev/null || { echo none; exit; }; npm view left-pad version'),
    pip: await tool(
      'command -v pip3 >/dev/null || { echo none; exit; }; pip3 index versions leftpad --index-url https://index.example/simple --disable-pip-version-check 2>/dev/null | head -1',
    ),
    'git through the proxy': await tool(
      'git clone -q https://git.example/ada/engine.git open && git -C open log --format=%s',
    ),
    'git with the login': await tool(
      'git clone -q https://ghe.example/ada/engine.git && git -C engine log --format=%s',
    ),
    'git push': await tool(`cd engine && ${commit} && git push -q origin main && echo pushed`),
    'git by ssh’s name': await tool(
      'git clone -q git@ghe.example:ada/engine.git again && git -C again log -1 --format=%s',
    ),
    'gh at an enterprise’s own': await tool('GH_NO_UPDATE_NOTIFIER=1 gh api user --jq .login'),
    'token inside': await tool('git -C engine config --list --show-origin | grep -c gho_ || true'),
  }
  const receipts = (await scene.receipts()).split('\n').filter((line) => line !== '')
  const report: EgressReport = {
    attacks,
    tools,
    trapped,
    asked: names.asked,
    tokenSeenBy: [...tokenSeenBy],
    seenOfAttacks,
    pushed: readFileSync(join(repositories, 'ada/engine.git/refs/heads/main'), 'utf8').trim(),
    leaks: await scene.hunt({ tools: JSON.stringify(tools), attacks: JSON.stringify(attacks) }),
    receipts: receipts.map((line) => {
      const { kind, status, operation, decision } = JSON.parse(line).body
      return [kind, operation, decision?.rule, status].join(' ')
    }),
    verified: (await home.run(['receipts', 'verify', '--replay'])).code,
  }
  for (const server of servers) {
    ;(server as ReturnType<typeof createServer>).closeAllConnections()
    server.close()
  }
  names.close()
  return report
}

const PACKAGE = {
  name: 'left-pad',
  'dist-tags': { latest: '1.3.0' },
  versions: {
    '1.3.0': { name: 'left-pad', version: '1.3.0', dist: { tarball: 'https://registry.example/x.tgz' } },
  },
}

if (import.meta.main) process.stdout.write(JSON.stringify(await main(process.argv[2]!)))
