/** `craik run diff`: prints what a run changed in its copy of the workspace, as a patch. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import type { FilePatch } from '../../run/changes/patch.ts'
import type { CliContext } from '../context.ts'
import { formatOption, JSON_HELP, outputColumns, printable, table } from '../output.ts'
import { writeTo } from '../sandbox/write-output.ts'
import { describeRemaining, ownChanges } from './find-changes.ts'
import { colourPatch, fitForTerminal, patchLines } from './patch-lines.ts'

interface DiffFlags {
  readonly stat?: boolean
  readonly format?: string
}

export function diffCommand(context: CliContext): Command {
  return new Command('diff')
    .description('print what a run changed in its copy of the folder, as a patch')
    .argument('<run>', 'id of the run')
    .option('--stat', 'print a table of the changed files and their line counts instead')
    .addOption(formatOption(`output format; json and jsonl: data; ${JSON_HELP} (default: a patch)`))
    .addHelpText('after', HELP)
    .action(async (runId: string, flags: DiffFlags) => {
      const changeSet = await ownChanges(context, runId, 'diff')
      const { patchOf } = await import('../../run/changes/patch.ts')
      if (flags.format === 'json' || flags.format === 'jsonl') return printJson(context, flags, changeSet)
      if (flags.stat) return printStat(context, flags, changeSet)
      context.exitWhenUnread(0)
      for await (const { text, note } of patchOf(changeSet, context.signal)) {
        const shown = context.stdout.isTTY ? colourPatch(fitForTerminal(text), context.environment) : text
        await writeTo(context.stdout, Buffer.from(shown))
        if (note !== null && context.stdout.isTTY) context.stdout.write(`  (${printable(note)})\n`)
      }
      context.stderr.write(describeRemaining(changeSet))
    })
}

async function printStat(context: CliContext, flags: DiffFlags, changeSet: StoredChangeSet): Promise<void> {
  const { patchOf } = await import('../../run/changes/patch.ts')
  const rows: Omit<FilePatch, 'text'>[] = []
  for await (const { text: _, ...row } of patchOf(changeSet, context.signal)) rows.push(row)
  const shown = table(
    [
      { title: 'path', value: ({ path }) => path, canShorten: true },
      { title: 'change', value: ({ change }) => change },
      { title: 'lines', value: patchLines },
      { title: 'note', value: ({ note }) => note ?? '', canShorten: true },
    ],
    rows,
    outputColumns(context, flags),
  )
  context.stdout.write(rows.length === 0 ? '  nothing was changed\n' : shown)
  context.stderr.write(describeRemaining(changeSet))
}

/** Prints file by file, because all patches together may be large. */
async function printJson(context: CliContext, flags: DiffFlags, changeSet: StoredChangeSet): Promise<void> {
  const { patchOf } = await import('../../run/changes/patch.ts')
  const { run_id, sandbox_id, workspace, left, left_count } = changeSet.record
  const head = JSON.stringify({ run_id, sandbox_id, workspace, left, left_count })
  const write = (text: string) => writeTo(context.stdout, Buffer.from(text))
  const isLines = flags.format === 'jsonl'
  await write(isLines ? `${head}\n` : `${head.slice(0, -1)},"files":[`)
  let isFirst = true
  for await (const patch of patchOf(changeSet, context.signal)) {
    const file = JSON.stringify(fileJson(patch, flags.stat === true))
    await write(isLines ? `${file}\n` : `${isFirst ? '\n' : ',\n'}${file}`)
    isFirst = false
  }
  if (!isLines) await write('\n]}\n')
}

function fileJson({ path, change, addedLines, removedLines, note, text }: FilePatch, isStat: boolean): Json {
  const facts = { path, change, added_lines: addedLines, removed_lines: removedLines, note }
  return isStat ? facts : { ...facts, patch: text }
}

const HELP = `
Prints the changes that Craik saved when the run ended, as a patch for git apply
or patch -p1. In a pipe too, the output is a patch, not JSON. On a terminal,
Craik makes control characters visible. Craik lists on stderr what it could not
save.

Examples:
  craik run diff run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD
  craik run diff run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD --stat
`
