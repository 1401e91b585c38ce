/** `craik transcripts export`: saves conversations as Markdown files in the user's inbox. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { type ExportedTranscripts, exportNew } from '../../transcripts/export/export-new.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { addWhere, type WhereOptions, withTranscriptSource } from './where.ts'

interface ExportOptions extends WhereOptions {
  readonly inbox?: string
}

const OUTCOMES: Readonly<Record<ExportedTranscripts['outcome'], string>> = {
  written: 'saved',
  updated: 'updated',
  unchanged: 'unchanged',
  edited: 'skipped: edited by you',
  gone: 'skipped: moved or deleted',
  unknown: 'skipped: record damaged',
}

const COLUMNS: readonly Column<ExportedTranscripts>[] = [
  { title: 'outcome', value: ({ outcome }) => OUTCOMES[outcome] },
  { title: 'harness', value: ({ conversation }) => conversation.harness, dropOrder: 1 },
  { title: 'turns', value: ({ conversation }) => conversation.turns.toLocaleString('en'), dropOrder: 2 },
  { title: 'file', value: ({ path }) => path, canShorten: true },
]

export function exportTranscriptsCommand(context: CliContext): Command {
  return addWhere(new Command('export'))
    .description('save new and continued conversations to the inbox as Markdown')
    .option('--inbox <folder>', 'folder to write to (default: $SANDBOX_INBOX_DIR, otherwise ~/inbox)')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: ExportOptions) => {
      const inbox = inboxOf(context, options)
      const exported = await withTranscriptSource(context, options, (selection) =>
        exportNew({ ...selection, inbox, records: context.home.transcripts }),
      )
      printRows(context, options, exported, COLUMNS, ({ path, outcome, conversation }) => ({
        path,
        outcome,
        ...conversation,
      }))
    })
}

function inboxOf({ environment }: CliContext, { inbox }: ExportOptions): string {
  if (inbox === '') throw new CraikError('usage', '--inbox is empty', { hint: 'omit --inbox to use ~/inbox' })
  return inbox ?? (environment.SANDBOX_INBOX_DIR || join(environment.HOME || homedir(), 'inbox'))
}

const HELP = `
Saves each conversation as one file, conversations/<start>/<first words>.md, and
updates that file in later exports. Does not change or recreate a file that you
edited, moved or deleted. Skips transcripts that have not changed since the last
export.

Examples:
  craik transcripts export
  craik transcripts export --sandbox parser --inbox ./inbox
`
