/**
 * A user and their login sandbox, as `bin/sandbox.sh` and `craik up` create it: with real agents, and a GitHub of the
 * tests.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type CommandResult, ROOT, type RunOptions, run } from '../craik.ts'
import { Terminal } from '../e2e/interactive-user.ts'
import { LoginScene, randomToken } from '../gateway/login-scene.ts'
import type { Answerer } from '../gateway/providers.ts'
import { copyHarnesses, shareHarnesses } from '../harness-image.ts'
import { type HomeInstance, USER_UID } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'

/** The harness of an ordinary user in the tests. Copying all harnesses would take a gigabyte. */
const ONLY_HARNESS = 'kimi'

/** The owner of the token, as GitHub itself reports it. */
export interface GitHubUser {
  readonly login: string
  readonly name?: string
  readonly scopes?: string
  readonly expires?: string
}

export class LoginSandboxScene implements AsyncDisposable {
  readonly scene: LoginScene
  readonly workspace: string
  readonly #github: Server
  readonly #backend: 'process' | 'docker'
  readonly token = randomToken('gho_')
  /** Undefined: the token is no longer valid. */
  user: GitHubUser | undefined = { login: 'octo' }

  private constructor(scene: LoginScene, github: Server, backend: 'process' | 'docker') {
    this.scene = scene
    this.#github = github
    this.#backend = backend
    this.workspace = scene.home.workspace('project', { 'readme.txt': 'ours\n' })
  }

  static async open(instance: HomeInstance, answers?: Answerer): Promise<LoginSandboxScene> {
    const certificate = selfSigned(['127.0.0.1'])
    const scene = await LoginScene.open(instance, certificate, answers)
    if (instance.identity === 'root') await shareHarnesses(scene.home.home)
    else await copyHarnesses(scene.home.home, [ONLY_HARNESS], USER_UID)
    const holder: { made?: LoginSandboxScene } = {}
    const github = createServer(certificate, (request, response) => {
      const { token, user } = holder.made!
      const isKnown = user !== undefined && request.headers.authorization?.includes(token) === true
      if (request.url !== '/api/v3/user' || !isKnown) {
        response.writeHead(401).end('{}')
        return
      }
      response.writeHead(200, {
        'content-type': 'application/json',
        ...(user.scopes !== undefined && { 'x-oauth-scopes': user.scopes }),
        ...(user.expires !== undefined && { 'github-authentication-token-expiration': user.expires }),
      })
      response.end(JSON.stringify({ login: user.login, id: 583_231, name: user.name ?? null, email: null }))
    })
    await new Promise<void>((done) => github.listen(0, '127.0.0.1', done))
    holder.made = new LoginSandboxScene(scene, github, instance.backend ?? 'process')
    const { port } = github.address() as AddressInfo
    scene.configureAccounts({ github: { base_url: `https://127.0.0.1:${port}/api/v3` } })
    return holder.made
  }

  /** Logs the user in to GitHub, in the format of `gh`. Without a name, the format is that of older versions. */
  logInToGitHub(name?: string): void {
    const { port } = this.#github.address() as AddressInfo
    const user = name === undefined ? '' : `    user: ${name}\n`
    this.scene.put('.config/gh/hosts.yml', `127.0.0.1:${port}:\n    oauth_token: ${this.token}\n${user}`)
    this.scene.addSecret(this.token)
  }

  /** Runs `craik …` in the workspace. */
  run(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return this.scene.home.run(args, {
      cwd: this.workspace,
      timeoutMs: 150_000,
      ...options,
      env: this.env(options.env),
    })
  }

  /** Runs `bin/sandbox.sh …` in the workspace. */
  script(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandResult> {
    const { environment, user } = this.scene.home
    return run(join(ROOT, 'bin/sandbox.sh'), args, {
      cwd: this.workspace,
      timeoutMs: 150_000,
      ...user,
      env: { ...environment, ...this.env(env) },
    })
  }

  env(more: Readonly<Record<string, string | undefined>> = {}): Record<string, string> {
    const agents = this.scene.home.identity === 'root' ? {} : { SANDBOX_HARNESSES: ONLY_HARNESS }
    const all = { SANDBOX_BACKEND: this.#backend, SANDBOX_LOGIN: 'octo', ...agents, ...more }
    return Object.fromEntries(
      Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined),
    )
  }

  async up(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<UpRecord> {
    const { code, stdout, stderr } = await this.run(['up', '--no-attach', '--format', 'json', ...args], {
      env,
    })
    if (code !== 0) throw new Error(`craik up exited ${code}: ${stderr}`)
    const record = JSON.parse(stdout) as UpRecord
    await this.scene.home.adopt(record.id)
    return record
  }

  /** Returns the output of a shell script in the sandbox. Throws if the script fails. */
  async inside(script: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(['exec', 'bash', '-c', script], { env })
    if (code !== 0) throw new Error(`inside exited ${code}: ${stdout}${stderr}`)
    return stdout
  }

  terminal(args: readonly string[], env: Readonly<Record<string, string>> = {}): Terminal {
    const { home, user, program } = this.scene.home
    const environment = { ...this.scene.home.environment, ...this.env(env) }
    return new Terminal({ folder: this.workspace, home, user, program, environment }, args, 120, 40)
  }

  get inbox(): string {
    return this.scene.home.path('inbox')
  }

  /** Returns every file in the inbox, by its path relative to the inbox. */
  readSaved(): Record<string, string> {
    if (!existsSync(this.inbox)) return {}
    const files = readdirSync(this.inbox, { recursive: true, withFileTypes: true }).filter((one) =>
      one.isFile(),
    )
    return Object.fromEntries(
      files.map(({ parentPath, name }) => {
        const path = join(parentPath, name)
        return [path.slice(this.inbox.length + 1), readFileSync(path, 'utf8')]
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#github.closeAllConnections()
    this.#github.close()
    await this.scene[Symbol.asyncDispose]()
  }
}

export interface UpRecord {
  readonly login: string
  readonly id: string
  readonly sandbox: string
  readonly how: string
  readonly notes: readonly string[]
  readonly workspace_mode: string
}
