/** `craik transcripts list`: lists conversations. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import { type Conversation, nameOf } from '../../transcripts/conversation.ts'
import { findConversations } from '../../transcripts/find-transcripts.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatMinute, formatOption, printRows } from '../output.ts'
import { Progress } from '../progress.ts'
import { addWhere, type WhereOptions, withTranscriptSource } from './where.ts'

/** The part of a conversation that stays in memory while others are read. */
interface Row extends Omit<Conversation, 'turns'> {
  readonly name: string
  readonly turnCount: number
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'harness', value: ({ harness }) => harness },
  {
    title: 'started',
    value: ({ startedAtMs }) => (startedAtMs === undefined ? '–' : formatMinute(startedAtMs)),
    dropOrder: 4,
  },
  { title: 'turns', value: ({ turnCount }) => turnCount.toLocaleString('en'), dropOrder: 3 },
  { title: 'about', value: ({ name }) => name, canShorten: true },
  { title: 'workspace', value: ({ cwd }) => cwd ?? '–', dropOrder: 1, canShorten: true },
  { title: 'model', value: ({ model }) => model ?? '–', dropOrder: 2 },
]

export function listTranscriptsCommand(context: CliContext): Command {
  return addWhere(new Command('list'))
    .description('list conversations, newest first')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: WhereOptions) => {
      const rows = await withTranscriptSource(context, options, async (selection) => {
        using progress = new Progress(context, 'reading transcripts:')
        const found: Row[] = []
        for await (const { turns, ...rest } of findConversations(selection)) {
          found.push({ ...rest, name: nameOf({ ...rest, turns }), turnCount: turns.length })
          await progress.tick(found.length)
        }
        return found.sort((a, b) => (b.startedAtMs ?? 0) - (a.startedAtMs ?? 0))
      })
      printRows(context, options, rows, COLUMNS, rowJson)
    })
}

function rowJson({ harness, id, path, name, turnCount, cwd, model, usage, damage, ...times }: Row): Json {
  return {
    harness,
    id,
    path,
    about: name,
    turns: turnCount,
    started: instantOf(times.startedAtMs),
    updated: instantOf(times.updatedAtMs),
    workspace: cwd ?? null,
    model: model ?? null,
    usage: usage ? { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens } : null,
    damage: { ...damage },
  }
}

export function instantOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}

const HELP = `
Reads the sessions that Claude Code, Codex, Gemini, OpenCode and Kimi store in a
home folder. Changes nothing there, and masks secrets.

Examples:
  craik transcripts list
  craik transcripts list --sandbox parser --harness codex
`
