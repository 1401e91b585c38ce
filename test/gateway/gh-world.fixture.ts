/** Runs the GitHub CLI in a sandbox, where a server of the tests has the name `github.com`. Prints the results. */
import { mkdirSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { selfSigned } from '../wire/certificate.ts'
import { makeRepository, serveGit } from './git-server.ts'
import { type GithubCall, serveGithub } from './github-server.ts'
import { LoginScene, randomToken } from './login-scene.ts'
import { startNameServer } from './name-server.ts'
import { PUBLIC } from './world.ts'

export interface GhReport {
  /** The result of each command. */
  readonly tools: Readonly<Record<string, string>>
  /** The requests that the API received: `api.github.com GET /user`. */
  readonly asked: readonly string[]
  /** Whether every request had the real token and no other one. */
  readonly isOnlyToken: boolean
  readonly leaks: readonly string[]
  /** `operation target status` of every use of the login. */
  readonly receipts: readonly string[]
  readonly verified: number | null
}

async function main(folder: string): Promise<GhReport> {
  const hosts = ['github.com', 'api.github.com']
  const certificate = selfSigned(['127.0.0.1'], hosts)
  const token = randomToken('gho_')
  const calls: GithubCall[] = []
  const repositories = join(folder, 'repositories')
  mkdirSync(repositories)
  makeRepository(repositories)
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const { host = '', authorization = '' } = request.headers
    if (host === 'api.github.com') calls.push(await serveGithub(token, request, response))
    else if (authorization === '') response.writeHead(401, { 'www-authenticate': 'Basic' }).end()
    else {
      const provided = Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString()
      calls.push({ host, what: 'git', authorization: provided })
      serveGit(repositories, request, response)
    }
  }
  const names = await startNameServer(Object.fromEntries(hosts.map((host) => [host, [[PUBLIC]]])))
  const server = createServer({ ...certificate }, (request, response) => void serve(request, response))
  await new Promise<void>((listening) => server.listen(443, PUBLIC, listening))

  await using scene = await LoginScene.open({ identity: 'root' }, certificate)
  scene.addSecret(token)
  scene.put('.config/gh/hosts.yml', `github.com:\n    oauth_token: ${token}\n    user: ada\n`)
  const box = await scene.create(['--name', 'box'])
  const tool = async (script: string) => {
    const ran = await box.exec(['sh', '-c', script], { env: { GH_NO_UPDATE_NOTIFIER: '1' } })
    return ran.code === 0 ? ran.stdout.trim() : `failed ${ran.code}: ${(ran.stdout + ran.stderr).slice(-600)}`
  }
  const repo = '-R ada/engine'
  const tools = {
    'who am I': await tool('gh api user --jq .login'),
    'a repository by REST': await tool('gh api repos/ada/engine --jq .default_branch'),
    'repo view': await tool('gh repo view ada/engine --json nameWithOwner --jq .nameWithOwner'),
    'pr list': await tool(`gh pr list ${repo} --json number,title --jq '.[] | "\\(.number) \\(.title)"'`),
    'pr list, as a table': await tool(`gh pr list ${repo}`),
    'issue create': await tool(`gh issue create ${repo} --title more --body teeth`),
    'repo clone': await tool('gh repo clone ada/engine -- -q && git -C engine log --format=%s'),
    'a token of somebody else': await tool(
      `GH_TOKEN=${randomToken('gho_')} gh api user 2>&1; echo "ended $?"`,
    ),
    // In the sandbox, this command prints the placeholder credential.
    'auth token': (await tool('gh auth token')) === token ? 'the real one' : 'another',
  }
  const log = (await scene.receipts()).split('\n').filter((line) => line.includes('"login.use"'))
  const report: GhReport = {
    tools,
    asked: calls.map(({ host, what }) => `${host} ${what}`),
    isOnlyToken: calls.every(({ authorization }) =>
      [`Bearer ${token}`, `x-access-token:${token}`].includes(authorization),
    ),
    leaks: await scene.hunt({ tools: JSON.stringify(tools) }),
    receipts: log.map((line) => {
      const { operation, target, status } = JSON.parse(line).body
      return [operation, target, status].join(' ')
    }),
    verified: (await scene.home.run(['receipts', 'verify', '--replay'])).code,
  }
  server.closeAllConnections()
  server.close()
  names.close()
  return report
}

if (import.meta.main) process.stdout.write(JSON.stringify(await main(process.argv[2]!)))
