/**
 * `craik gateway`: serves models and the web to programs outside sandboxes, with the same checks as for sandboxes,
 * until Ctrl-C.
 */
import { homedir } from 'node:os'
import { Command, Option } from 'commander'
import type { Account } from '../accounts/account.ts'
import { CraikError } from '../errors.ts'
import { formatDuration, parseDuration } from '../lib/duration.ts'
import type { PolicyProfile } from '../policy/profiles.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { formatOption, printable, printRecord } from './output.ts'

interface GatewayFlags {
  readonly port?: string
  readonly for: string
  readonly profile: PolicyProfile
  readonly format?: string
}

const MAX_PORT = 65_535
/** Users without root privileges cannot open lower ports. */
const MIN_PORT = 1024
const MAX_SPAN_MS = 7 * 24 * 3600_000

export const gatewayCommand: NounBuilder = (context) =>
  new Command('gateway')
    .option('--port <number>', 'port on 127.0.0.1 (default: a free one)')
    .option('--for <duration>', 'stop after this time', '8h')
    .addOption(
      new Option(
        '--profile <profile>',
        'policy profile that decides whether this is allowed (craik policy show)',
      )
        .choices(['strict', 'automation', 'custom'])
        .default('strict'),
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (flags: GatewayFlags) => {
      const port = parsePort(flags.port)
      const spanMs = parseDuration(flags.for, '--for')
      if (spanMs > MAX_SPAN_MS)
        throw new CraikError('usage', `--for ${flags.for} is longer than 7d`, { hint: 'use at most 7d' })
      await serve(context, flags, port, spanMs)
    })

async function serve(context: CliContext, flags: GatewayFlags, port: number, spanMs: number): Promise<void> {
  const { openLocalGateway } = await import('../supervisor/local-gateway.ts')
  const { home, clock, environment, stderr } = context
  const gateway = await openLocalGateway({
    home,
    clock,
    environment,
    port,
    spanMs,
    profile: flags.profile,
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
    printRecord(context, flags, record, () => formatBanner(gateway.url, gateway.tokenFile, accounts, spanMs))
    await waitForAbort(AbortSignal.any([context.signal, over]))
  } finally {
    await gateway.close()
    if (over.aborted && !context.signal.aborted)
      stderr.write(`craik: stopped after ${formatDuration(spanMs)}\n`)
    if (gateway.refused > 0)
      stderr.write(`craik: requests refused without a valid token: ${gateway.refused.toLocaleString('en')}\n`)
  }
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done()
    else signal.addEventListener('abort', () => done(), { once: true })
  })
}

function parsePort(text: string | undefined): number {
  if (text === undefined) return 0
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0
  if (port >= MIN_PORT && port <= MAX_PORT) return port
  throw new CraikError('usage', `--port must be a number from ${MIN_PORT} to ${MAX_PORT}`, {
    hint: 'omit --port to use a free port',
  })
}

/** The variables that configure each program, and the logins that it can use. */
const PROGRAMS: readonly {
  readonly base: string
  readonly path: string
  readonly key: string
  readonly isFor: (account: Account) => boolean
}[] = [
  {
    base: 'ANTHROPIC_BASE_URL',
    path: '',
    key: 'ANTHROPIC_API_KEY',
    isFor: ({ family }) => family === 'anthropic',
  },
  {
    base: 'OPENAI_BASE_URL',
    path: '/v1',
    key: 'OPENAI_API_KEY',
    isFor: ({ family }) => family === 'openai',
  },
  // With a Google login, the program sends only that login and never the token. So the gateway works only with an API
  // key here.
  {
    base: 'GOOGLE_GEMINI_BASE_URL',
    path: '',
    key: 'GEMINI_API_KEY',
    isFor: ({ family, kind }) => family === 'gemini' && kind === 'api_key',
  },
]

function formatBanner(url: string, tokenFile: string, accounts: readonly Account[], spanMs: number): string {
  const reported = PROGRAMS.filter(({ isFor }) => accounts.some(isFor))
  const logins = accounts.map(({ id }) => printable(id)).join(' · ')
  const lines = [
    `gateway  ${url} · for ${formatDuration(spanMs)} · stop with Ctrl-C`,
    `logins   ${logins === '' ? 'none:  craik accounts' : logins}`,
    '',
    'in the shell of the programs that should use it:',
    // The path can contain every character but NUL.
    `  token="$(cat '${tokenFile.replaceAll("'", `'\\''`)}')"`,
    ...(reported.length === 0 ? PROGRAMS : reported).map(
      ({ base, path, key }) => `  export ${base}=${url}${path} ${key}="$token"`,
    ),
  ]
  return lines.map((line) => `${`  ${line}`.trimEnd()}\n`).join('')
}

const HELP = `
Serves model calls on 127.0.0.1 until Ctrl-C, and prints the settings for the
programs that should use it. It checks each call against policy, budgets and
quotas, adds your login, which the program never sees, and writes receipts.

Other users of this machine can connect to the port too, so each request needs a
token: as bearer token, x-api-key, x-goog-api-key or ?key=. Craik writes the
token to a file that only you can read, prints the file's path, and deletes the
file at the end.

The gateway is also an HTTP proxy, with the token as password. It reaches only
hosts that are allowed for all sandboxes (craik egress allow --all-sandboxes).

Examples:
  craik gateway
  craik gateway --port 8787 --for 1h --format json
`
