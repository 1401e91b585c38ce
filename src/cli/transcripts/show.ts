/** `craik transcripts show`: prints one conversation as Markdown. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import type { Conversation } from '../../transcripts/conversation.ts'
import { findConversations } from '../../transcripts/find-transcripts.ts'
import { renderMarkdown } from '../../transcripts/markdown/render.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { Progress } from '../progress.ts'
import { writeTo } from '../sandbox/write-output.ts'
import { instantOf } from './list.ts'
import { addWhere, type TranscriptSelection, type WhereOptions, withTranscriptSource } from './where.ts'

export function showTranscriptCommand(context: CliContext): Command {
  return addWhere(new Command('show'))
    .description('print a conversation as Markdown; --format json prints its turns as data')
    .argument('<id>', 'conversation id, or the start of it')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExamples:\n  craik transcripts show 0236f607\n  craik transcripts show 0236f607 --sandbox parser --format json\n',
    )
    .action(async (id: string, options: WhereOptions) => {
      const { conversation, sandbox } = await withTranscriptSource(context, options, async (selection) => ({
        conversation: await findConversation(context, selection, id),
        sandbox: selection.sandbox,
      }))
      const { format } = options
      if (format === 'json' || format === 'jsonl')
        printRecord(context, options, conversationJson(conversation), () => '')
      else {
        const text = renderMarkdown(conversation, sandbox === undefined ? {} : { sandbox })
        await writeTo(context.stdout, Buffer.from(text))
      }
    })
}

/** Finds a conversation by its whole id, or by the start of it if only one matches. */
async function findConversation(
  context: CliContext,
  selection: TranscriptSelection,
  id: string,
): Promise<Conversation> {
  using progress = new Progress(context, 'reading transcripts:')
  let count = 0
  let found: Conversation | undefined
  const others: string[] = []
  for await (const conversation of findConversations(selection)) {
    await progress.tick(++count)
    if (conversation.id === id) return conversation
    if (id === '' || !conversation.id.startsWith(id)) continue
    if (found === undefined) found = conversation
    else others.push(conversation.id)
  }
  if (found === undefined)
    throw new CraikError('not_found', `no conversation has the id ${JSON.stringify(id.slice(0, 80))}`, {
      hint: `list conversations:  craik transcripts list${selection.sandbox === undefined ? '' : ` --sandbox ${selection.sandbox}`}`,
    })
  if (others.length === 0) return found
  throw new CraikError(
    'conflict',
    `${others.length + 1} conversations have an id that starts with ${JSON.stringify(id.slice(0, 80))}`,
    { hint: `use more of the id: ${[found.id, ...others].slice(0, 3).map(printable).join(', ')}` },
  )
}

function conversationJson(conversation: Conversation): Json {
  const { harness, id, path, cwd, model, title, turns, usage, damage, ...times } = conversation
  return {
    harness,
    id,
    path,
    title: title ?? null,
    workspace: cwd ?? null,
    model: model ?? null,
    started: instantOf(times.startedAtMs),
    updated: instantOf(times.updatedAtMs),
    turns: turns.map(({ role, atMs, parts }) => ({
      role,
      at: instantOf(atMs),
      parts: parts.map((part) => ({ ...part })),
    })),
    usage: usage ? { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens } : null,
    damage: { ...damage },
  }
}
