/** `craik command`: registers command lines under a reference that secret bindings and records can name. */
import { Command } from 'commander'
import { joinCommand } from '../lib/shlex.ts'
import { addNamedCommand, deleteCommand, listCommands } from '../secrets/commands.ts'
import type { CommandRow } from '../store/store.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatMinute, formatOption, printable, printRecord, printRows } from './output.ts'

interface FormatOptions {
  readonly format?: string
}

export const commandCommand: NounBuilder = (context) =>
  new Command('command')
    .addCommand(registerCommand(context))
    .addCommand(listCommand(context))
    .addCommand(removeCommand(context))

function registerCommand(context: CliContext): Command {
  return new Command('register')
    .description('register a command line under a name')
    .argument('<ref>', 'name: letters, digits and . _ : / @ -')
    .argument('[program...]', 'the program and its arguments, after --')
    .usage('[options] <ref> -- <program> [arguments...]')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nThe command line runs without a shell. To use pipes or variables, put them in a\nscript.\n\nExample:\n  craik command register openai-key -- pass show openai\n',
    )
    .action(async (ref: string, argv: readonly string[], options: FormatOptions) => {
      await addNamedCommand(await context.store(), await context.operator(), ref, argv)
      printRecord(
        context,
        options,
        { ref, argv },
        () => `  registered  ${ref} → ${printable(joinCommand(argv))}\n`,
      )
    })
}

const COLUMNS: readonly Column<CommandRow>[] = [
  { title: 'ref', value: (row) => row.ref },
  { title: 'command', value: (row) => joinCommand(row.argv), canShorten: true },
  { title: 'registered', value: (row) => formatMinute(row.createdAtMs), dropOrder: 1 },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the registered commands')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik command list --format json\n')
    .action(async (options: FormatOptions) => {
      const rows = await listCommands(await context.store())
      printRows(context, options, rows, COLUMNS, ({ ref, argv, createdAtMs }) => ({
        ref,
        argv,
        registered: new Date(createdAtMs).toISOString(),
      }))
    })
}

function removeCommand(context: CliContext): Command {
  return new Command('remove')
    .description('remove a registered command')
    .argument('<ref>', 'name of the command')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik command remove openai-key\n')
    .action(async (ref: string, options: FormatOptions) => {
      const orphans = await deleteCommand(await context.store(), await context.operator(), ref)
      printRecord(context, options, { ref, removed: true, secrets_without_source: orphans }, () => {
        const lines = orphans.map(
          (name) => `    secret ${name} no longer has a source:  craik secret bind ${name} --help\n`,
        )
        return `  removed  ${ref}\n${lines.join('')}`
      })
    })
}
