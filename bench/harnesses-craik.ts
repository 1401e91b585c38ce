/** Starts a warm sandbox with every agent, and runs `craik prompt` in it as a user types it. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { stringify } from 'yaml'
import type { PackagedHarnessName } from '../src/harnesses/packages/harness-catalogue.ts'
import { type Answerer, type Service, startProviders } from '../test/gateway/providers.ts'
import { shareHarnesses } from '../test/harness-image.ts'
import { selfSigned } from '../test/wire/certificate.ts'
import { KEYS, QUESTION } from './harnesses-bare.ts'
import { buildCraik, openSupervised } from './sandboxes-scene.ts'

const SERVED: Readonly<Record<keyof typeof KEYS, Service>> = {
  ANTHROPIC_API_KEY: 'anthropic',
  OPENAI_API_KEY: 'openai',
  GEMINI_API_KEY: 'gemini',
  OPENROUTER_API_KEY: 'openrouter',
  KIMI_API_KEY: 'kimi',
}

interface Prompted extends AsyncDisposable {
  /** The milliseconds from the start of the command to the first word of the answer in its output. */
  firstWordMs(name: PackagedHarnessName): Promise<number>
}

export async function openPrompted(folder: string, answer: Answerer): Promise<Prompted> {
  buildCraik()
  const certificate = selfSigned(['127.0.0.1'])
  const authority = join(folder, 'authority.pem')
  writeFileSync(authority, certificate.cert)
  await using stack = new AsyncDisposableStack()
  const providers = stack.use(await startProviders(certificate, answer))
  const home = join(folder, 'home')
  mkdirSync(join(home, 'config'), { recursive: true, mode: 0o700 })
  await shareHarnesses(home)
  const addresses: Record<string, { readonly base_url: string }> = {}
  for (const [key, service] of Object.entries(SERVED)) {
    addresses[`env/${key}`] = { base_url: providers.bases[service] }
    providers.accept(service, (token) => token === KEYS[key as keyof typeof KEYS])
  }
  writeFileSync(join(home, 'config/accounts.yaml'), stringify(addresses), { mode: 0o600 })
  const environment = { NODE_EXTRA_CA_CERTS: authority, ...KEYS }
  const supervised = stack.use(await openSupervised(home, folder, { environment }))
  const options = ['--harness', 'all', '--memory', '4g', '--pids', '512', '--format', 'json']
  const { id } = JSON.parse(supervised.craik('sandbox', 'create', ...options)) as { readonly id: string }
  const { file, main, env } = supervised.command
  const opened = stack.move()
  return {
    firstWordMs: (name) =>
      firstTextMs(file, [main, 'prompt', QUESTION, '--harness', name, '--sandbox', id], env),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

function firstTextMs(file: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const since = performance.now()
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let tookMs: number | undefined
  let output = ''
  createInterface({ input: child.stdout }).on('line', (line) => {
    output += line
    if ((JSON.parse(line) as { readonly type: string }).type === 'text') tookMs ??= performance.now() - since
  })
  child.stderr.on('data', (piece) => {
    output += piece
  })
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('close', (code) => {
      if (code === 0 && tookMs !== undefined) done(tookMs)
      else fail(new Error(`craik ${args.slice(1).join(' ')} exited ${code}: ${output}`))
    })
  })
}
