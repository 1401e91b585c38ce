/** `craik transcripts search`: finds text in conversations. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { TranscriptHarness } from '../../transcripts/conversation.ts'
import { findConversations } from '../../transcripts/find-transcripts.ts'
import { type Match, searchIn } from '../../transcripts/search.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { Progress } from '../progress.ts'
import { addWhere, type WhereOptions, withTranscriptSource } from './where.ts'

interface Row extends Match {
  readonly harness: TranscriptHarness
  readonly id: string
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'harness', value: ({ harness }) => harness, dropOrder: 1 },
  { title: 'turn', value: ({ turn, role }) => `${turn} ${role}` },
  { title: 'where', value: ({ where }) => where, dropOrder: 2 },
  { title: 'excerpt', value: ({ excerpt }) => excerpt, canShorten: true },
]

const MAX_ROWS = 1000

export function searchCommand(context: CliContext): Command {
  return addWhere(new Command('search'))
    .description('search the messages, thoughts and tool calls of conversations')
    .argument('<text>', 'text to find; ignores case')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExamples:\n  craik transcripts search "parser test"\n  craik transcripts search npm --sandbox parser\n',
    )
    .action(async (text: string, options: WhereOptions) => {
      if (text.trim() === '')
        throw new CraikError('usage', 'the search text is empty', {
          hint: 'craik transcripts search "parser test"',
        })
      const rows = await withTranscriptSource(context, options, async (selection) => {
        using progress = new Progress(context, 'reading transcripts:')
        const found: Row[] = []
        let count = 0
        for await (const conversation of findConversations(selection)) {
          await progress.tick(++count)
          const { harness, id } = conversation
          for (const match of searchIn(conversation, text)) {
            if (found.length < MAX_ROWS) found.push({ harness, id, ...match })
            else {
              selection.onProblem?.('search', `shows the first ${MAX_ROWS.toLocaleString('en')} matches`)
              return found
            }
          }
        }
        return found
      })
      printRows(context, options, rows, COLUMNS, (row) => ({ ...row }))
    })
}
