/**
 * A user with logins and sandboxes that use them: a home folder with the files of the CLIs, an issuer and providers
 * that replace the real ones, and a search for leaked credentials.
 */
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { stringify } from 'yaml'
import { type Issuer, startIssuer } from '../accounts/issuer.ts'
import type { RunOptions } from '../craik.ts'
import { huntLeaks } from '../leaks/hunt.ts'
import { type HomeInstance, type LiveSandbox, SandboxHome } from '../sandbox-home.ts'
import { tempFolder } from '../temp-folder.ts'
import { selfSigned } from '../wire/certificate.ts'
import type { GatewayRequest, Reply } from './ask.fixture.ts'
import { type Answerer, type Providers, type Service, startProviders } from './providers.ts'

export const NODE_INSIDE = '/opt/craik/node'
const HOUR_MS = 3_600_000

export type Program = 'claude' | 'codex' | 'gemini' | 'kimi'
export const FILES: Readonly<Record<Program, string>> = {
  claude: '.claude/.credentials.json',
  codex: '.codex/auth.json',
  gemini: '.gemini/oauth_creds.json',
  kimi: '.kimi-code/credentials/kimi-code.json',
}

/** The user's account id at ChatGPT. */
const ACCOUNT_NUMBER = 'the-real-account-number'

/** Returns the token that names the user. Codex stores it beside its other tokens and does not start without it. */
function identity(expiryMs: number): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { chatgpt_account_id: ACCOUNT_NUMBER }
  const payload = { exp: Math.trunc(expiryMs / 1000), 'https://api.openai.com/auth': claims }
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(payload)}.${part('not signed')}`
}

export const randomToken = (prefix: string) => `${prefix}${randomBytes(24).toString('hex')}`

export class LoginScene implements AsyncDisposable {
  readonly home: SandboxHome
  readonly providers: Providers
  readonly issuer: Issuer
  /** Values that may be only in the user's own files. */
  readonly #secrets: string[] = []
  readonly #addresses: Record<string, Readonly<Record<string, string>>> = {}
  #workspaces = 0

  private constructor(home: SandboxHome, providers: Providers, issuer: Issuer) {
    this.home = home
    this.providers = providers
    this.issuer = issuer
  }

  static async open(
    instance: HomeInstance,
    certificate = selfSigned(['127.0.0.1']),
    answerer?: Answerer,
  ): Promise<LoginScene> {
    const [providers, issuer] = await Promise.all([
      startProviders(certificate, answerer),
      startIssuer(certificate),
    ])
    const trusted = tempFolder('craik-trusted-')
    chmodSync(trusted, 0o755)
    writeFileSync(join(trusted, 'authority.pem'), certificate.cert)
    const env = { NODE_EXTRA_CA_CERTS: join(trusted, 'authority.pem'), ...instance.env }
    const home = await SandboxHome.open({ ...instance, env })
    const { bases } = providers
    const at = (base_url: string) => ({ base_url, token_url: issuer.tokenUrl })
    const scene = new LoginScene(home, providers, issuer)
    scene.configureAccounts({
      'claude-code': at(bases.anthropic),
      codex: at(bases.codex),
      gemini: at(bases['code-assist']),
      kimi: at(bases.kimi),
      'secret/ANTHROPIC_API_KEY': { base_url: bases.anthropic },
      'secret/OPENAI_API_KEY': { base_url: bases.openai },
      'secret/GEMINI_API_KEY': { base_url: bases.gemini },
      'secret/OPENROUTER_API_KEY': { base_url: bases.openrouter },
    })
    return scene
  }

  /** Call this before Craik starts in the home. */
  configureAccounts(addresses: Readonly<Record<string, Readonly<Record<string, string>>>>): void {
    Object.assign(this.#addresses, addresses)
    this.home.configure('accounts.yaml', stringify(this.#addresses))
  }

  /** Adds a value that `hunt` must not find. */
  addSecret(secret: string): void {
    this.#secrets.push(secret)
  }

  /** Returns the path of a program's login file on the host. */
  fileOf(program: Program): string {
    return this.home.path(FILES[program])
  }

  /** Writes a login as the program does, with tokens of the issuer. From now on, its provider accepts these tokens. */
  logIn(program: Program, leftMs = HOUR_MS): { readonly access: string; readonly refresh: string } {
    const { access_token, refresh_token } = this.issuer.login({ isJwt: program === 'codex', leftMs })
    const expiry = Date.now() + leftMs
    const renewed = new Date(Math.min(Date.now(), expiry - HOUR_MS))
    const content = {
      claude: {
        claudeAiOauth: {
          accessToken: access_token,
          refreshToken: refresh_token,
          expiresAt: expiry,
          scopes: ['user:inference', 'user:profile'],
          subscriptionType: 'max',
        },
      },
      codex: {
        auth_mode: 'chatgpt',
        OPENAI_API_KEY: null,
        last_refresh: renewed.toISOString(),
        tokens: { id_token: identity(expiry), access_token, refresh_token, account_id: ACCOUNT_NUMBER },
      },
      gemini: { access_token, refresh_token, token_type: 'Bearer', scope: 'cloud', expiry_date: expiry },
      kimi: {
        access_token,
        refresh_token,
        token_type: 'Bearer',
        scope: '',
        expires_at: Math.trunc(expiry / 1000),
        expires_in: 3600,
      },
    }[program]
    this.put(FILES[program], `${JSON.stringify(content, null, 2)}\n`)
    const service: Service = (
      { claude: 'anthropic', codex: 'codex', gemini: 'code-assist', kimi: 'kimi' } as const
    )[program]
    this.providers.accept(service, this.issuer.isAlive)
    return { access: access_token, refresh: refresh_token }
  }

  logOut(program: Program): void {
    rmSync(this.fileOf(program), { force: true })
  }

  /** Writes a file of the user and creates its folders. */
  put(path: string, content: string, mode = 0o600): void {
    const { uid, folder } = this.home
    for (let above = dirname(path), missing: string[] = []; ; above = dirname(above)) {
      if (above !== '.' && !existsSync(join(folder, above))) {
        missing = [above, ...missing]
        continue
      }
      for (const each of missing) {
        mkdirSync(join(folder, each), { mode: 0o700 })
        chownSync(join(folder, each), uid, uid)
      }
      break
    }
    writeFileSync(join(folder, path), content, { mode })
    chownSync(join(folder, path), uid, uid)
  }

  /** Runs `craik secret set`. The provider accepts the new key. */
  async setKey(name: string, service: Service): Promise<string> {
    const key = randomToken('made-up-key-')
    this.#secrets.push(key)
    const { code, stderr } = await this.home.run(['secret', 'set', name], { input: key })
    if (code !== 0) throw new Error(stderr)
    this.providers.accept(service, (token) => token === key)
    return key
  }

  /** Creates a sandbox with the program `ask.ts` in its workspace. */
  async create(args: readonly string[] = [], fill?: (workspace: string) => void): Promise<LiveSandbox> {
    const folder = this.home.workspace(`workspace-${this.#workspaces++}`)
    copyFileSync(join(import.meta.dirname, 'ask.fixture.ts'), join(folder, 'ask.ts'))
    fill?.(folder)
    return this.home.create(['--workspace', folder, ...args])
  }

  async ask(box: LiveSandbox, questions: readonly GatewayRequest[]): Promise<readonly Reply[]> {
    const ran = await box.exec([NODE_INSIDE, '--no-warnings', 'ask.ts', JSON.stringify(questions)])
    if (ran.code !== 0) throw new Error(`ask.ts: ${ran.stdout}${ran.stderr}`)
    return JSON.parse(ran.stdout) as Reply[]
  }

  /** Runs `craik sandbox logins`. */
  async refreshLogins(box: LiveSandbox): Promise<readonly string[]> {
    const { logins } = await this.home.json<{ readonly logins: string[] }>([
      'sandbox',
      'logins',
      box.id,
      '--format',
      'json',
    ])
    return logins
  }

  async receipts(options: RunOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.home.run(
      ['receipts', 'list', '--limit', '100000', '--format', 'jsonl'],
      options,
    )
    if (code !== 0) throw new Error(stderr)
    return stdout
  }

  /**
   * Returns where real tokens or keys are that should not be there. `without` names paths in sandboxes that may have
   * them.
   */
  async hunt(
    texts: Readonly<Record<string, string>> = {},
    without: readonly string[] = [],
    folders: readonly string[] = [],
  ): Promise<string[]> {
    const secrets = [...this.#secrets, ...this.issuer.issued]
    const roots = this.roots()
    if (roots.length === 0) throw new Error('there is no sandbox that could be looked into')
    return huntLeaks({
      secrets,
      folders: [this.home.home, ...roots, ...folders],
      texts: { receipts: await this.receipts(), ...texts },
      // Leaves out the host's programs and Craik's own files: every sandbox can read them and none can write them.
      except: [
        join(this.home.home, 'cache'),
        ...roots.flatMap((root) => ['/usr', '/opt/craik', ...without].map((path) => root + path)),
      ],
    })
  }

  /** Returns the root of every sandbox, as one of its processes sees it. */
  roots(): string[] {
    const own = readlinkSync('/proc/self/ns/mnt')
    const found = new Map<string, string>()
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const space = readlinkSync(`/proc/${pid}/ns/mnt`)
        // Leaves out the process that sets up the sandbox, which sees the root of the host.
        const isInside = space !== own && existsSync(`/proc/${pid}/root${NODE_INSIDE}`)
        if (isInside && this.#isOurs(pid)) found.set(space, `/proc/${pid}/root`)
      } catch {
        // The process exited in the meantime.
      }
    }
    return [...found.values()]
  }

  /** Returns whether the process or one of its ancestors names this home or one of its sandboxes. */
  #isOurs(pid: string): boolean {
    if (pid === '0') return false
    const { folder, containers, home } = this.home
    const names = [folder, ...containers, ...readdirSync(join(home, 'sandboxes'))]
    const output =
      readFileSync(`/proc/${pid}/cmdline`, 'latin1') + readFileSync(`/proc/${pid}/cgroup`, 'latin1')
    if (names.some((name) => output.includes(name))) return true
    const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? '0'
    return this.#isOurs(parent)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.home[Symbol.asyncDispose]()
    await this.providers[Symbol.asyncDispose]()
    await this.issuer[Symbol.asyncDispose]()
  }
}
