/** `craik transcripts export`: conversations as Markdown files in the user's inbox. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { type Exported, exportNew } from '../../transcripts/export/export-new.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { addWhere, inPlace, type WhereOptions } from './where.ts'

interface ExportOptions extends WhereOptions {
  readonly inbox?: string
}

const OUTCOMES: Readonly<Record<Exported['outcome'], string>> = {
  written: 'saved',
  updated: 'updated',
  unchanged: 'as it was',
  edited: 'left: edited since',
  gone: 'left: moved or deleted',
  unknown: 'left: record damaged',
}

const COLUMNS: readonly Column<Exported>[] = [
  { title: 'outcome', value: ({ outcome }) => OUTCOMES[outcome] },
  { title: 'harness', value: ({ conversation }) => conversation.harness, goes: 1 },
  { title: 'turns', value: ({ conversation }) => conversation.turns.toLocaleString('en'), goes: 2 },
  { title: 'file', value: ({ path }) => path },
]

export function exportCommand(context: CliContext): Command {
  return addWhere(new Command('export'))
    .description('write new conversations, and what is new in old ones, to your inbox as Markdown')
    .option('--inbox <folder>', 'where to (default: $SANDBOX_INBOX_DIR, otherwise ~/inbox)')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: ExportOptions) => {
      const inbox = inboxOf(context, options)
      const exported = await inPlace(context, options, (place) =>
        exportNew({ ...place, inbox, records: context.home.transcripts }),
      )
      printRows(context, options, exported, COLUMNS, ({ path, outcome, conversation }) => ({
        ...{ path, outcome, ...conversation },
      }))
    })
}

function inboxOf({ environment }: CliContext, { inbox }: ExportOptions): string {
  if (inbox === '') throw new CraikError('usage', '--inbox is empty', { hint: 'leave it out for ~/inbox' })
  return inbox ?? (environment.SANDBOX_INBOX_DIR || join(environment.HOME || homedir(), 'inbox'))
}

const HELP = `
Each conversation becomes one file, conversations/<when it began>/<its first words>.md, and is brought up to date in place
by later exports. A file that you edited, moved or deleted is yours: it is neither written to nor made again. Files
that did not change since the last export are not read.

Examples:
  craik transcripts export
  craik transcripts export --sandbox parser --inbox ./inbox
`
