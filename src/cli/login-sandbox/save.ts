/** `craik save`: saves conversations and changes of login sandboxes to the inbox now. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { parseLoginName } from '../../login-sandbox/login-names.ts'
import { type LoginRecord, LoginRecords } from '../../login-sandbox/login-records.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, formatOption, printNote, printRows } from '../output.ts'
import { SkippedContent } from '../transcripts/skipped-content.ts'
import { saveLoginSandbox } from './save-login-sandbox.ts'

interface SaveFlags {
  readonly login?: string
  readonly conversations?: true
  readonly quiet?: true
  readonly format?: string
}

interface Row {
  readonly login: string
  readonly what: string
  readonly file: string
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'login', value: ({ login }) => login, dropOrder: 1 },
  { title: 'saved', value: ({ what }) => what },
  { title: 'file', value: ({ file }) => file, canShorten: true },
]

export const saveCommand: NounBuilder = (context) =>
  new Command('save')
    .option('--login <name>', 'only the sandbox of this login name (default: all login sandboxes)')
    .option('--conversations', 'save only conversations; does not count as activity in the sandbox')
    .option('--quiet', 'print nothing, unless saving fails')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (flags: SaveFlags) => {
      const rows: Row[] = []
      for (const record of selectRecords(context, flags)) {
        const skipped = new SkippedContent()
        try {
          rows.push(...(await saveRecord(context, record, flags, skipped)))
        } finally {
          if (!flags.quiet) printNote(context, skipped.lines())
        }
      }
      if (!flags.quiet) printRows(context, flags, rows, COLUMNS, (row) => ({ ...row }))
    })

function selectRecords(context: CliContext, { login }: SaveFlags): readonly LoginRecord[] {
  const records = new LoginRecords(context.home.loginSandboxes)
  if (login === undefined) return records.list()
  const name = parseLoginName(login, '--login')
  const record = records.read(name)
  if (record !== undefined) return [record]
  throw new CraikError('not_up', `the login ${name} has no sandbox`, {
    hint: `start a sandbox:  craik up --login ${name}`,
  })
}

async function saveRecord(
  context: CliContext,
  record: LoginRecord,
  flags: SaveFlags,
  skipped: SkippedContent,
): Promise<Row[]> {
  const { login } = record
  const { conversations, snapshot } = await saveLoginSandbox(context, record, {
    conversationsOnly: flags.conversations === true,
    onProblem: skipped.problem,
    onSkipped: skipped.passedOver,
  })
  return [
    ...conversations.map(({ path, outcome }) => ({ login, what: `conversation, ${outcome}`, file: path })),
    ...(snapshot === undefined ? [] : [{ login, what: 'changes', file: `${snapshot}/changes.md` }]),
  ]
}

const HELP = `
Saves new conversations as Markdown, like craik transcripts export. Also saves a
list of the packages, programs and variables that changed since craik up, as
<time>/changes.md. Both are in the inbox, the folder of craik up --inbox
(default: ~/inbox). Craik does the same every five minutes while the sandbox is
in use, and when you leave it.

Examples:
  craik save
  craik save --login octo --format json
`
