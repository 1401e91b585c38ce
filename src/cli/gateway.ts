/** `craik gateway`: models and the web for programs outside sandboxes, through the same door, until Ctrl-C. */
import { homedir } from 'node:os'
import { Command, Option } from 'commander'
import type { Account } from '../accounts/account.ts'
import { CraikError } from '../errors.ts'
import { formatDuration, parseDuration } from '../lib/duration.ts'
import type { Profile } from '../policy/profiles.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { formatOption, printable, printRecord } from './output.ts'

interface GatewayFlags {
  readonly port?: string
  readonly for: string
  readonly profile: Profile
  readonly format?: string
}

const MAX_PORT = 65_535
/** Those below are not everybody's to take. */
const MIN_PORT = 1024
const MAX_SPAN_MS = 7 * 24 * 3600_000

export const gatewayCommand: NounBuilder = (context) =>
  new Command('gateway')
    .description('models and the web for programs outside sandboxes, with the logins of this machine')
    .option('--port <number>', 'on 127.0.0.1 (default: a free one)')
    .option('--for <time>', 'ends by itself after so long', '8h')
    .addOption(
      new Option('--profile <profile>', 'the policy that decides')
        .choices(['strict', 'automation', 'custom'])
        .default('strict'),
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (flags: GatewayFlags) => {
      const port = parsePort(flags.port)
      const spanMs = parseDuration(flags.for, '--for')
      if (spanMs > MAX_SPAN_MS)
        throw new CraikError('usage', `--for ${flags.for} is too much`, { hint: 'at most 7d' })
      await serve(context, flags, port, spanMs)
    })

async function serve(context: CliContext, flags: GatewayFlags, port: number, spanMs: number): Promise<void> {
  const { openLocalGateway } = await import('../supervisor/local-gateway.ts')
  const { home, clock, environment, stderr } = context
  const gateway = await openLocalGateway({
    ...{ home, clock, environment, port, spanMs, profile: flags.profile },
    store: await context.store(),
    log: await context.log(),
    operator: await context.operator(),
    userHome: environment.HOME || homedir(),
    logger: (_, message) => void stderr.write(`craik: ${printable(message)}\n`),
  })
  const over = AbortSignal.timeout(spanMs)
  try {
    const accounts = await gateway.accounts(context.signal)
    const record = {
      url: gateway.url,
      token_file: gateway.tokenFile,
      expires_at: new Date(gateway.expiresAtMs).toISOString(),
      operator: await context.operator(),
      accounts: accounts.map(({ id }) => id),
      grant_id: gateway.grantId,
      run_id: gateway.runId,
    }
    printRecord(context, flags, record, () => shown(gateway.url, gateway.tokenFile, accounts, spanMs))
    await aborted(AbortSignal.any([context.signal, over]))
  } finally {
    await gateway.close()
    if (over.aborted && !context.signal.aborted)
      stderr.write(`craik: ended after ${formatDuration(spanMs)}\n`)
    if (gateway.refused > 0)
      stderr.write(`craik: requests refused for want of its token: ${gateway.refused.toLocaleString('en')}\n`)
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done()
    else signal.addEventListener('abort', () => done(), { once: true })
  })
}

function parsePort(text: string | undefined): number {
  if (text === undefined) return 0
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0
  if (port >= MIN_PORT && port <= MAX_PORT) return port
  throw new CraikError('usage', `--port takes a number from ${MIN_PORT} to ${MAX_PORT}`, {
    hint: 'leave it out: then a free one is taken',
  })
}

/** What its programs are told, and which logins it is of use for. */
const PROGRAMS: readonly {
  readonly base: string
  readonly path: string
  readonly key: string
  readonly isFor: (account: Account) => boolean
}[] = [
  {
    ...{ base: 'ANTHROPIC_BASE_URL', path: '', key: 'ANTHROPIC_API_KEY' },
    isFor: ({ family }) => family === 'anthropic',
  },
  {
    ...{ base: 'OPENAI_BASE_URL', path: '/v1', key: 'OPENAI_API_KEY' },
    isFor: ({ family }) => family === 'openai',
  },
  // With a login of Google's, its program sends that login and nothing else.
  {
    ...{ base: 'GOOGLE_GEMINI_BASE_URL', path: '', key: 'GEMINI_API_KEY' },
    isFor: ({ family, kind }) => family === 'gemini' && kind === 'api_key',
  },
]

function shown(url: string, tokenFile: string, accounts: readonly Account[], spanMs: number): string {
  const told = PROGRAMS.filter(({ isFor }) => accounts.some(isFor))
  const logins = accounts.map(({ id }) => printable(id)).join(' · ')
  const lines = [
    `gateway  ${url} · for ${formatDuration(spanMs)} · Ctrl-C ends it`,
    `logins   ${logins === '' ? 'none:  craik accounts' : logins}`,
    '',
    'where the programs run that are to use it:',
    // The path may hold anything but a NUL.
    `  token="$(cat '${tokenFile.replaceAll("'", `'\\''`)}')"`,
    ...(told.length === 0 ? PROGRAMS : told).map(
      ({ base, path, key }) => `  export ${base}=${url}${path} ${key}="$token"`,
    ),
  ]
  return lines.map((line) => `${`  ${line}`.trimEnd()}\n`).join('')
}

const HELP = `
Whoever types it gives leave for model calls through it, for as long as it runs. Each is decided, held against budgets
and quotas and receipted like one from a sandbox; the login goes in behind it and is not shown. Loopback is open to all
users of a machine, so each request carries the token of the run: as bearer, x-api-key, x-goog-api-key or ?key=. It lies
in a file that only you can read, and is gone with the run. It is also a proxy, with the token as its password, to what
you allowed for all sandboxes (craik egress allow --all-sandboxes), and to nothing else.

Examples:
  craik gateway
  craik gateway --port 8787 --for 1h --format json
`
