/** `craik up`: starts the sandbox of your login, with the agents ready to use. */
import { Command } from 'commander'
import type { Account } from '../../accounts/account.ts'
import { formatDuration } from '../../lib/duration.ts'
import { type IdentityCheck, requireIdentity } from '../../login-sandbox/identity.ts'
import { loadSettings, type TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand, formatRepeatCommand } from '../../login-sandbox/next-commands.ts'
import { refuseHostVariables } from '../../login-sandbox/refuse-host-variables.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { formatOption, printable, printRecord, printText, resolveFormat } from '../output.ts'
import { backendOption } from '../sandbox/backend-option.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { credentialsOption } from '../sandbox/credentials-option.ts'
import { describeIsolation, listUnenforcedLimits } from '../sandbox/describe-sandbox.ts'
import { allowPresets } from './egress.ts'
import { commandEnvironment } from './entry-environment.ts'
import { authorOf, beginSession, endSession } from './login-sandbox-session.ts'
import { accountsLine, warningsOf } from './messages.ts'
import { authorFor, prepareInside } from './prepare-sandbox.ts'
import { requireInbox } from './require-inbox.ts'
import {
  addLoginOptions,
  askGitHub,
  githubAccount,
  INBOX_HELP,
  type SelectedSandbox,
  selectSandbox,
} from './select-sandbox.ts'
import { type StartedLoginSandbox, startLoginSandbox } from './start-login-sandbox.ts'
import { hasTerminal, isRemoved, openTerminal } from './terminal.ts'

export interface UpOptions extends TypedOptions {
  readonly attach?: boolean
  readonly format?: string
}

const HELP = `
Needs no configuration: Craik finds the logins of this machine, and the agents
use them through Craik's gateway. By default the credentials stay on the host.

The agents work in your folder itself. Only protected files, such as .git/hooks,
are read-only for them. Review changes before you run git, an editor or a build
in the folder. If it belongs to root or another user, or contains Craik, Craik
copies it instead: copy your work out with craik sandbox cp.

The sandbox keeps conversations, and packages of npm and pip (craik volume
list). It keeps the rest of its home until craik rebuild.

Exit codes: that of the shell. 64 if the environment has GITHUB_TOKEN,
GH_ENTERPRISE_TOKEN or a variable that matches SANDBOX_REFUSE_PATTERNS, because
programs would prefer such a token to your login: unset it first. (GH_TOKEN is
allowed, but Craik never uses it or passes it on.) 78 if the GitHub login is not
the one of the profile.

Examples:
  craik up
  craik up --no-attach --egress npm,pypi
  craik up --profile work --apt jq,ripgrep
`

export function addSandboxOptions(command: Command): Command {
  return addLoginOptions(command)
    .option(
      '--workspace <folder>',
      'your project folder, in which agents work (default: $SANDBOX_WORKSPACE, otherwise the current folder)',
    )
    .addOption(backendOption('backend', 'docker if an engine is available, otherwise process'))
    .addOption(credentialsOption())
    .option(
      '--harness <names>',
      'harnesses (programs of agents) to include, such as claude-code,codex (default: all)',
    )
    .option('--egress <presets>', 'allow the hosts of these tools, such as npm,pypi')
    .option('--apt <packages>', 'Debian packages to add to the container image, such as jq,ripgrep')
    .option('--inbox <folder>', INBOX_HELP)
}

export const upCommand: NounBuilder = (context) =>
  addSandboxOptions(new Command('up'))
    .option('--no-attach', 'do not open a terminal in the sandbox')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action((options: UpOptions) => up(context, options))

/** `more` contains additional notes to print. */
export async function up(
  context: CliContext,
  options: UpOptions,
  more: readonly string[] = [],
): Promise<void> {
  refuse(context, options)
  const startedMs = performance.now()
  const chosen = await selectSandbox(context, options)
  const accounts = await chosen.logins.accounts(context.signal)
  const problems = await chosen.logins.problems(context.signal)
  const github = await identify(context, chosen)
  const isForPerson = resolveFormat(context, options) === 'table'
  if (isForPerson && chosen.settings.credentials !== 'none')
    printText(context, `  accounts ${accountsLine(accounts, problems)}\n`)
  using inbox = await requireInbox(context, chosen.settings, options)
  const author = authorFor(chosen.settings, github)
  using client = await connect(context)
  const brought = await startLoginSandbox(context, client, chosen, options)
  inbox.keep()
  const unready = await prepareInside(context, client, brought.sandbox, { author, accounts })
  await allowPresets(context, brought.sandbox, chosen.settings.egressPresets)
  const tookMs = performance.now() - startedMs
  const warnings = warningsOf(accounts, problems, github, chosen.settings, context.clock.nowMs())
  printSummary(
    context,
    options,
    chosen,
    brought,
    [...brought.notes, ...more, ...unready, ...warnings],
    tookMs,
  )
  await beginSession(context, client, brought.sandbox, chosen, author, brought.how === 'running')
  if (options.attach === false || !hasTerminal(context)) return
  await openTerminalAndSave(context, client, brought.sandbox, chosen, accounts)
}

/** Checks the environment before anything else, so that a refused command leaves no trace. */
function refuse({ environment }: CliContext, options: TypedOptions): void {
  const settings = loadSettings(options, environment, process.cwd())
  refuseHostVariables(environment, settings.refusePattern, formatRepeatCommand('up', settings, options))
}

async function identify(
  context: CliContext,
  { settings, logins }: SelectedSandbox,
): Promise<IdentityCheck | undefined> {
  if (settings.credentials === 'none') return undefined
  const requested = await askGitHub(context, logins, await githubAccount(context, logins))
  requireIdentity(requested, settings.expectedLogin)
  return requested
}

export async function openTerminalAndSave(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  chosen: SelectedSandbox,
  accounts: readonly Account[],
): Promise<void> {
  const environment = commandEnvironment(sandbox, accounts, authorOf(context, chosen.login))
  try {
    await openTerminal(context, client, sandbox, environment, formatCommand('up', chosen.settings))
  } catch (error) {
    if (!isRemoved(error)) await endSession(context, chosen)
    throw error
  }
  await endSession(context, chosen)
}

function printSummary(
  context: CliContext,
  options: UpOptions,
  { login, settings }: SelectedSandbox,
  { sandbox, how, copiedFiles }: StartedLoginSandbox,
  notes: readonly string[],
  tookMs: number,
): void {
  const weak = listUnenforcedLimits(sandbox.limits, sandbox.enforced)
  const record = {
    login,
    profile: settings.profile ?? null,
    sandbox: sandbox.name,
    id: sandbox.id,
    how,
    isolation: sandbox.isolation,
    credentials: sandbox.credentials,
    workspace: settings.workspace,
    workspace_mode: sandbox.workspace.mode,
    inbox: settings.inbox,
    notes: [...notes],
    limits_not_held: weak,
    up_ms: Math.round(tookMs),
  }
  printRecord(context, options, record, () => {
    const facts = [
      sandbox.name,
      describeIsolation(sandbox),
      sandbox.credentials === 'none' ? 'no logins' : sandbox.credentials,
      ...(copiedFiles === undefined ? [] : [`copied ${copiedFiles.toLocaleString('en')} files`]),
      formatDuration(tookMs),
    ]
    const next = [formatCommand('enter', settings), `${formatCommand('exec', settings)} -- claude -p "…"`]
    const isAttached = options.attach !== false && hasTerminal(context)
    return [
      `  sandbox  ${printable(facts.join(' · '))}\n`,
      weak.length === 0 ? '' : `  limits   ${weak.join(' · ')}\n`,
      ...notes.map((note) => `  note     ${printable(note)}\n`),
      isAttached ? '' : `  next     ${[...next, formatCommand('down', settings)].join('   ')}\n`,
    ].join('')
  })
}
