/**
 * Runs an agent directly on the host: the same program over the same protocol, with a real key and a plain model
 * server.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import type { AgentProcess } from '../src/harnesses/acp/agent-process.ts'
import { promptAgent } from '../src/harnesses/acp/prompt-agent.ts'
import type { Harness } from '../src/harnesses/harness.ts'
import { type PackagedHarnessName, readHarness } from '../src/harnesses/packages/harness-catalogue.ts'
import { fileOf } from '../src/harnesses/packages/wrappers.ts'
import { acceptSocket } from '../test/gateway/provider-sockets.ts'
import type { Answerer, Service } from '../test/gateway/providers.ts'
import { never } from './sandboxes-scene.ts'

export const KEYS = {
  ANTHROPIC_API_KEY: 'made-up',
  OPENAI_API_KEY: 'made-up',
  GEMINI_API_KEY: 'made-up',
  OPENROUTER_API_KEY: 'made-up',
  KIMI_API_KEY: 'made-up',
}
export const QUESTION = 'hello'

/** The paths are those of the gateway, so that the harness's settings work unchanged. */
const SERVICES: readonly (readonly [string, Service])[] = [
  ['/p/provider_openrouter/v1', 'openrouter'],
  ['/p/provider_kimi/v1', 'kimi'],
  ['/v1beta', 'gemini'],
  ['/v1/messages', 'anthropic'],
  ['/v1', 'openai'],
]

interface PlainModels extends AsyncDisposable {
  readonly url: string
}

/** Starts the same model server as for the other side, but without TLS, logins and checks of requests. */
export async function startPlainModels(answer: Answerer): Promise<PlainModels> {
  const parseAddress = (url = '') => {
    const [prefix, service] = SERVICES.find(([each]) => url.startsWith(each)) ?? ['', 'openai' as const]
    return { service, path: url.slice(prefix === '/v1/messages' ? '/v1'.length : prefix.length) }
  }
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const { service, path } = parseAddress(request.url)
    const { status = 200, isStream, text } = answer(service, path, Buffer.concat(pieces).toString() || '{}')
    response.writeHead(status, { 'content-type': isStream ? 'text/event-stream' : 'application/json' })
    response.end(text)
  })
  server.on('upgrade', (request, stream, head) => {
    const { service, path } = parseAddress(request.url)
    acceptSocket(request, stream, head, async (body) => answer(service, path, body).text)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

interface BareScene {
  readonly name: PackagedHarnessName
  /** The folder in which the harness is installed. */
  readonly program: string
  readonly models: string
  readonly folder: string
}

/**
 * Prepares a home folder with the harness's settings. Each call of the result starts the agent, prompts it, and returns
 * the milliseconds until the first word.
 */
export function bareAgent(
  harness: Harness,
  { name, program, models, folder }: BareScene,
): () => Promise<number> {
  const [home, cwd] = [join(folder, `bare-${name}`), join(folder, `project-${name}`)]
  mkdirSync(cwd)
  const login = harness.logins.find(({ kind }) => kind === 'api_key')
  const place = { gateway: models, login, model: undefined, trustsProject: true }
  const codexKey = { auth_mode: 'apikey', OPENAI_API_KEY: KEYS.OPENAI_API_KEY }
  for (const { path, content } of [
    ...harness.settings(place),
    { path: '.codex/auth.json', content: JSON.stringify(codexKey) },
  ]) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), content)
  }
  const { settings, architecture } = readHarness(name)
  const [file, ...args] = harness.agent(place)
  const found = settings.programs[file]
  if (found === undefined || 'runtime' in found) throw new Error(`${name} has no program ${file}`)
  const real = join(program, fileOf(found, architecture))
  const others = 'node' in found ? (found.programs ?? {}) : {}
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    ...KEYS,
    KIMI_MODEL_API_KEY: KEYS.KIMI_API_KEY,
    ...harness.environment(place),
    ...Object.fromEntries(Object.entries(others).map(([key, other]) => [key, join(program, 'bin', other)])),
  }
  const argv: [string, ...string[]] = 'node' in found ? [process.execPath, real, ...args] : [real, ...args]
  return () => firstWordMs(name, argv, cwd, env)
}

async function firstWordMs(
  harness: string,
  [file, ...args]: readonly [string, ...string[]],
  cwd: string,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const since = performance.now()
  const child = spawn(file, args, { cwd, env, detached: true, stdio: 'pipe' })
  let complaint = ''
  child.stderr.on('data', (piece) => {
    complaint = (complaint + piece).slice(-2000)
  })
  child.stdin.on('error', () => {})
  const process_: AgentProcess = {
    input: Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    output: Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
    ended: new Promise((end) =>
      child.once('close', (code, signal) =>
        end({ endDescription: `ended with ${code ?? signal}`, errorOutput: complaint }),
      ),
    ),
    async kill() {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    },
  }
  let tookMs: number | undefined
  await promptAgent(process_, {
    harness,
    cwd,
    text: QUESTION,
    cancel: never,
    kill: never,
    permit: async () => false,
    onEvent: ({ type }) => {
      if (type === 'text') tookMs ??= performance.now() - since
    },
  })
  await process_.ended
  if (tookMs === undefined) throw new Error(`${harness} said nothing: ${complaint}`)
  return tookMs
}
