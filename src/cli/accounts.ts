/** `craik accounts`: lists the logins of this host that sandboxes can use. It never prints a secret value. */
import { Command } from 'commander'
import type { Account, Broker } from '../accounts/account.ts'
import type { ProbedAccounts } from '../accounts/broker.ts'
import type { ProbeProblem } from '../accounts/probe-result.ts'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { hostLogins } from './host-logins.ts'
import {
  type Column,
  formatMinute,
  formatOption,
  printable,
  printRows,
  printText,
  resolveFormat,
} from './output.ts'

interface AccountsOptions {
  readonly check?: true
  readonly format?: string
}

interface Row {
  readonly id: string
  readonly family: string | null
  readonly kind: string | null
  readonly who: string | null
  readonly source: string
  readonly status: 'ready' | 'expired' | 'ok' | 'unavailable' | 'skipped' | 'ended'
  readonly expiresAtMs: number | undefined
  readonly baseUrl: string | null
  readonly billing: string | null
  /**
   * The files and variables of a sandbox that contain its placeholder credential. Null if sandboxes do not get this
   * login because they prefer another one.
   */
  readonly place: string | null
  readonly problem: string | null
  readonly hint: string | null
}

export const accountsCommand: NounBuilder = (context) =>
  new Command('accounts')
    .option('--check', 'verify each login, and refresh it if it is about to expire')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: AccountsOptions) => {
      const { rows, looked } = await accountRows(context, options.check === true)
      if (resolveFormat(context, options) === 'table' && rows.length === 0)
        printText(context, nothingFound(looked))
      else if (resolveFormat(context, options) !== 'table') printRows(context, options, rows, [], toJson)
      else {
        printRows(
          context,
          options,
          rows.filter(({ family }) => family !== null),
          tableColumns(context.environment.HOME),
          toJson,
        )
        for (const { id, problem, hint } of rows)
          if (problem !== null)
            printText(context, `\n  ${printable(`${id}: ${problem}`)}\n    ${printable(hint ?? '')}\n`)
      }
      if (options.check && rows.some(({ status }) => status !== 'ok')) context.setExitCode(69)
    })

const HELP = `
Craik finds logins in the files of their programs (Claude Code, Codex, Gemini,
Kimi, OpenCode, gh), then API keys in the secret store (craik secret) and the
environment. By default a sandbox gets a placeholder credential for the first
login of each family, and never the login itself.

Statuses: ready, expired (Craik renews the login when it is needed), ok and
unavailable (results of --check), skipped (Craik cannot read the login), ended
(its issuer no longer renews it: log in again).

Exit code: with --check, 69 if a login is damaged, ended or cannot be renewed.

Examples:
  craik accounts
  craik accounts --check --format json
`

/** Lists the searched locations and how to add a login. */
function nothingFound(looked: readonly ProbedAccounts[]): string {
  const programs = looked.filter(({ loginCommand }) => loginCommand !== undefined)
  const width = Math.max(...programs.map(({ name }) => name.length))
  const names = looked.find(({ loginCommand }) => loginCommand === undefined)?.searchedLocations ?? []
  const lines = [
    'no login found on this machine; use one of these:',
    '',
    ...programs.flatMap(({ name, searchedLocations, loginCommand }) => [
      `${name.padEnd(width)}  log in    ${loginCommand}`,
      `${''.padEnd(width)}  searched  ${searchedLocations.join(', ')}`,
    ]),
    `${'API key'.padEnd(width)}  store it  craik secret set ${names[0]}   or set that variable`,
    `${''.padEnd(width)}  searched  ${names.join(', ')}`,
  ]
  return lines.map((line) => `${`  ${printable(line)}`.trimEnd()}\n`).join('')
}

async function accountRows(
  context: CliContext,
  check: boolean,
): Promise<{ readonly rows: readonly Row[]; readonly looked: readonly ProbedAccounts[] }> {
  const { selectPreferredAccounts, loginFileOf } = await import('../accounts/sentinel-files.ts')
  const { signal } = context
  const logins = await hostLogins(context, {
    operator: await context.operator(),
    log: check ? await context.log() : undefined,
    asksAgain: check,
  })
  const accounts = await logins.accounts(signal)
  const chosen = new Set(selectPreferredAccounts(accounts))
  const rows: Row[] = []
  for (const account of accounts) {
    const failure = check ? await failureOf(logins, account.id, signal) : undefined
    const location = chosen.has(account) ? loginFileOf(account) : null
    rows.push(rowOf(account, location, check, failure, context.clock.nowMs()))
  }
  const known = new Set(rows.map(({ id }) => id))
  // A login that ended during the check is already in a row and must not appear twice.
  const problems = (await logins.problems(signal)).filter(({ id }) => !known.has(id))
  return { rows: [...rows, ...problems.map(problemRow)], looked: logins.listProbed() }
}

async function failureOf(broker: Broker, id: string, until: AbortSignal): Promise<CraikError | undefined> {
  try {
    await broker.credential(id, until)
    return undefined
  } catch (error) {
    if (error instanceof CraikError && error.code === 'unavailable') return error
    throw error
  }
}

function rowOf(
  { id, family, kind, who, source, expiresAtMs, baseUrl, billing }: Account,
  location: string | null,
  check: boolean,
  failure: CraikError | undefined,
  nowMs: number,
): Row {
  const looked = expiresAtMs !== undefined && expiresAtMs <= nowMs ? 'expired' : 'ready'
  const checked = failure === undefined ? 'ok' : 'unavailable'
  return {
    id,
    family,
    kind,
    who: who ?? null,
    source,
    expiresAtMs,
    baseUrl,
    billing,
    place: location,
    status: check ? checked : looked,
    problem: failure?.message ?? null,
    hint: failure?.hint ?? null,
  }
}

function problemRow({ id, source, problem, hint, ended }: ProbeProblem): Row {
  return {
    id,
    source,
    problem,
    hint,
    family: null,
    kind: null,
    who: null,
    status: ended ? 'ended' : 'skipped',
    expiresAtMs: undefined,
    baseUrl: null,
    billing: null,
    place: null,
  }
}

const tableColumns = (userHome: string | undefined): readonly Column<Row>[] => [
  { title: 'account', value: (row) => row.id },
  { title: 'family', value: (row) => row.family ?? '–', dropOrder: 3 },
  { title: 'status', value: (row) => row.status },
  { title: 'who', value: (row) => row.who ?? '–', canShorten: true },
  {
    title: 'expires (UTC)',
    value: (row) => (row.expiresAtMs === undefined ? '–' : formatMinute(row.expiresAtMs)),
    dropOrder: 4,
  },
  { title: 'found in', value: (row) => withTilde(row.source, userHome), canShorten: true, dropOrder: 2 },
  { title: 'in a sandbox', value: (row) => row.place ?? '–', canShorten: true, dropOrder: 1 },
]

function withTilde(path: string, userHome: string | undefined): string {
  return userHome && path.startsWith(`${userHome}/`) ? `~${path.slice(userHome.length)}` : path
}

function toJson(row: Row): Json {
  const { expiresAtMs, baseUrl, place: location, ...facts } = row
  return {
    ...facts,
    base_url: baseUrl,
    expires_at: expiresAtMs === undefined ? null : new Date(expiresAtMs).toISOString(),
    in_sandbox: location === null ? null : { sentinel: true, place: location },
  }
}
