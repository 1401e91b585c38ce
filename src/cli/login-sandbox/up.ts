/** `craik up`: the sandbox of your login, with the agents in it ready to be typed. */
import { Command, Option } from 'commander'
import type { Account } from '../../accounts/account.ts'
import { formatDuration } from '../../lib/duration.ts'
import { type Asked, requireIdentity } from '../../login-sandbox/identity.ts'
import { refuseVariables } from '../../login-sandbox/refuse.ts'
import { craikAgain, craikFor } from '../../login-sandbox/same-again.ts'
import { loadSettings, type Typed } from '../../login-sandbox/settings.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { chosenFormat, formatOption, printable, printRecord } from '../output.ts'
import { connect } from '../sandbox/connect.ts'
import { notHeld, placeOf } from '../sandbox/view.ts'
import { addLoginOptions, askGitHub, type Chosen, choose, githubAccount } from './chosen.ts'
import { allowPresets } from './egress.ts'
import { requireInbox } from './inbox.ts'
import { insideEnvironment } from './inside.ts'
import { type Brought, bringUp } from './place.ts'
import { authorFor, readyInside } from './ready.ts'
import { authorOf, beginSession, endSession } from './session.ts'
import { hasTerminal, isRemoved, openTerminal } from './terminal.ts'
import { accountsLine, warningsOf } from './told.ts'

export interface UpOptions extends Typed {
  readonly attach?: boolean
  readonly format?: string
}

const HELP = `
Nothing is to be configured: the logins that this machine has are found and work inside, through the gateway, which keeps
them outside. A provider without a login is passed over. What persists: the workspace, conversations, what npm and pip
installed (craik volume list); the rest of the home until craik rebuild. Exits with the shell’s own code.

It is refused (64) with GITHUB_TOKEN, GH_ENTERPRISE_TOKEN, or a variable whose name SANDBOX_REFUSE_PATTERNS matches in the
environment, and (78) when the GitHub login is not the one that the profile is for.

Examples:
  craik up
  craik up --no-attach --egress npm,pypi
  craik up --profile work --apt jq,ripgrep
`

export function addPlaceOptions(command: Command): Command {
  return addLoginOptions(command)
    .option('--workspace <folder>', 'the folder to work on (default: $SANDBOX_WORKSPACE, otherwise this one)')
    .addOption(
      new Option('--backend <kind>', 'what it is (default: docker where an engine answers)').choices([
        'docker',
        'process',
      ]),
    )
    .addOption(
      new Option(
        '--credentials <kind>',
        'what it gets of the logins: stand-ins, the real ones, or nothing',
      ).choices(['broker', 'forward', 'none']),
    )
    .option('--harness <names>', 'with these agents alone, such as claude-code,codex (default: all)')
    .option('--egress <presets>', 'let it reach the hosts of these tools, such as npm,pypi')
    .option('--apt <packages>', 'with these Debian packages in its image, such as jq,ripgrep')
    .option(
      '--inbox <folder>',
      'where conversations are saved (default: $SANDBOX_INBOX_DIR, otherwise ~/inbox)',
    )
}

export const upCommand: NounBuilder = (context) =>
  addPlaceOptions(new Command('up'))
    .option('--no-attach', 'leave it running, and open no terminal in it')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action((options: UpOptions) => up(context, options))

/** `more` is told with what else is to be noted. */
export async function up(
  context: CliContext,
  options: UpOptions,
  more: readonly string[] = [],
): Promise<void> {
  refuse(context, options)
  const startedMs = performance.now()
  const chosen = await choose(context, options)
  const accounts = await chosen.logins.accounts(context.signal)
  const problems = await chosen.logins.problems(context.signal)
  const github = await identify(context, chosen)
  const isForPerson = chosenFormat(context, options) === 'table'
  if (isForPerson && chosen.settings.credentials !== 'none')
    context.stdout.write(`  accounts ${accountsLine(accounts, problems)}\n`)
  using inbox = await requireInbox(context, chosen.settings, options)
  const author = authorFor(chosen.settings, github)
  using client = await connect(context)
  const brought = await bringUp(context, client, chosen, options)
  inbox.keep()
  const unready = await readyInside(context, client, brought.sandbox, { author, accounts })
  await allowPresets(context, brought.sandbox, chosen.settings.egressPresets)
  const tookMs = performance.now() - startedMs
  const warnings = warningsOf(accounts, problems, github, chosen.settings, context.clock.nowMs())
  tell(context, options, chosen, brought, [...brought.notes, ...more, ...unready, ...warnings], tookMs)
  await beginSession(context, client, brought.sandbox, chosen, author, brought.how === 'running')
  if (options.attach === false || !hasTerminal(context)) return
  await stay(context, client, brought.sandbox, chosen, accounts)
}

/** Before anything is looked at or asked: what is refused leaves no trace. */
function refuse({ environment }: CliContext, options: Typed): void {
  const settings = loadSettings(options, environment, process.cwd())
  refuseVariables(environment, settings.refusePattern, craikAgain('up', settings, options))
}

async function identify(context: CliContext, { settings, logins }: Chosen): Promise<Asked | undefined> {
  if (settings.credentials === 'none') return undefined
  const asked = await askGitHub(context, logins, await githubAccount(context, logins))
  requireIdentity(asked, settings.expectedLogin)
  return asked
}

export async function stay(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  chosen: Chosen,
  accounts: readonly Account[],
): Promise<void> {
  const environment = insideEnvironment(sandbox, accounts, authorOf(context, chosen.login))
  try {
    await openTerminal(context, client, sandbox, environment, craikFor('up', chosen.settings))
  } catch (error) {
    if (!isRemoved(error)) await endSession(context, chosen)
    throw error
  }
  await endSession(context, chosen)
}

function tell(
  context: CliContext,
  options: UpOptions,
  { login, settings }: Chosen,
  { sandbox, how, copiedFiles }: Brought,
  notes: readonly string[],
  tookMs: number,
): void {
  const weak = notHeld(sandbox.limits, sandbox.enforced)
  const record = {
    ...{ login, profile: settings.profile ?? null, sandbox: sandbox.name, id: sandbox.id, how },
    ...{ isolation: sandbox.isolation, credentials: sandbox.credentials, workspace: settings.workspace },
    ...{ workspace_mode: sandbox.workspace.mode, inbox: settings.inbox, notes: [...notes] },
    limits_not_held: weak,
    up_ms: Math.round(tookMs),
  }
  printRecord(context, options, record, () => {
    const facts = [
      sandbox.name,
      placeOf(sandbox),
      sandbox.credentials === 'none' ? 'no logins' : sandbox.credentials,
      ...(copiedFiles === undefined ? [] : [`copied ${copiedFiles.toLocaleString('en')} files`]),
      formatDuration(tookMs),
    ]
    const next = [craikFor('enter', settings), `${craikFor('exec', settings)} -- claude -p "…"`]
    const isAttached = options.attach !== false && hasTerminal(context)
    return [
      `  sandbox  ${printable(facts.join(' · '))}\n`,
      weak.length === 0 ? '' : `  limits   ${weak.join(' · ')}\n`,
      ...notes.map((note) => `  note     ${printable(note)}\n`),
      isAttached ? '' : `  next     ${[...next, craikFor('down', settings)].join('   ')}\n`,
    ].join('')
  })
}
