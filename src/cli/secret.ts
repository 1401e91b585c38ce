/**
 * `craik secret`: manages names for values that are stored elsewhere, or encrypted in this home. It never prints a
 * value.
 */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { readValue } from '../secrets/read-value.ts'
import { resolveSecret } from '../secrets/resolve.ts'
import {
  type Binding,
  type BindingSource,
  describeSource,
  parseSecretName,
  unknownSecret,
} from '../secrets/secret.ts'
import { bindSecret, deleteSecret, listSecrets, type SecretEntry, storeSecret } from '../secrets/secrets.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatMinute, formatOption, printable, printRecord, printRows } from './output.ts'

interface FormatOptions {
  readonly format?: string
}

type BindOptions = FormatOptions & Partial<Record<BindingSource, string>>

export const secretCommand: NounBuilder = (context) =>
  new Command('secret')
    .addCommand(bindCommand(context))
    .addCommand(setCommand(context))
    .addCommand(listCommand(context))
    .addCommand(removeCommand(context))
    .addCommand(checkCommand(context))

function bindCommand(context: CliContext): Command {
  return new Command('bind')
    .description('record where a secret is; Craik reads it there when needed')
    .argument('<name>', 'name for the secret, which configuration and receipts use')
    .addOption(new Option('--env <VAR>', 'environment variable of the process that runs craik'))
    .addOption(new Option('--file <PATH>', 'file of yours with mode 0600, at most 64 KiB'))
    .addOption(new Option('--keyring <SERVICE/ACCOUNT>', 'item of your desktop’s keyring'))
    .addOption(new Option('--command <REF>', 'output of a registered command (craik command)'))
    .addOption(formatOption())
    .addHelpText('after', BIND_EXAMPLES)
    .action(async (name: string, options: BindOptions) => {
      const binding = selectBinding(options)
      const { replaced } = await bindSecret(await context.store(), await context.operator(), name, binding)
      printRecord(context, options, { name, ...binding, replaced }, () =>
        formatLine(replaced ? 'rebound' : 'bound', `${name} → ${describeSource(binding)}`),
      )
    })
}

const BIND_EXAMPLES = `
Examples:
  craik secret bind OPENAI_API_KEY --env OPENAI_API_KEY
  craik secret bind OPENAI_API_KEY --file ~/.config/openai/key
  craik secret bind OPENAI_API_KEY --keyring openai/me
  craik secret bind OPENAI_API_KEY --command openai-key
`

const SOURCES: readonly BindingSource[] = ['env', 'file', 'keyring', 'command']

function selectBinding(options: BindOptions): Binding {
  const [source, ...more] = SOURCES.filter((candidate) => options[candidate] !== undefined)
  if (source === undefined || more.length > 0)
    throw new CraikError('usage', 'a secret needs exactly one source', {
      hint: 'use --env VAR, --file PATH, --keyring SERVICE/ACCOUNT or --command REF',
    })
  const reference = options[source]!
  return { source, reference: source === 'file' && reference !== '' ? resolve(reference) : reference }
}

function setCommand(context: CliContext): Command {
  return (
    new Command('set')
      .description('store a secret encrypted; type it without echo, or pipe it in')
      .argument('<name>', 'name of the secret')
      .addOption(formatOption())
      .addHelpText('after', SET_EXAMPLES)
      // Commander's own errors would repeat the argument, which may be the value.
      .allowExcessArguments()
      .allowUnknownOption()
      .action(async (name: string, options: FormatOptions, command: Command) => {
        if (command.args.length > 1) throw valueAsArgument()
        parseSecretName(name)
        const value = await readValue(context, name)
        try {
          const { replaced } = await storeSecret(
            await context.store(),
            context.home,
            await context.operator(),
            name,
            value,
          )
          printRecord(context, options, { name, source: 'stored', replaced }, () =>
            formatLine(replaced ? 'replaced' : 'stored', `${name} → encrypted in the Craik home`),
          )
        } finally {
          value.fill(0)
        }
      })
  )
}

const SET_EXAMPLES = `
Examples:
  craik secret set GEMINI_API_KEY               type or paste it at the prompt
  pass show gemini | craik secret set GEMINI_API_KEY
`

function valueAsArgument(): CraikError {
  return new CraikError(
    'usage',
    'refusing a value on the command line: other users and the shell history can see it',
    {
      hint: 'run  craik secret set NAME  and type the value, or pipe it in; if the value was real, replace it at its issuer',
    },
  )
}

const COLUMNS: readonly Column<SecretEntry>[] = [
  { title: 'name', value: (row) => row.name },
  { title: 'source', value: (row) => row.source },
  { title: 'reference', value: (row) => row.reference ?? '–', canShorten: true },
  { title: 'updated', value: (row) => formatMinute(row.updatedAtMs), dropOrder: 1 },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the names and sources of secrets, never their values')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik secret list --format json\n')
    .action(async (options: FormatOptions) => {
      const rows = await listSecrets(await context.store())
      printRows(context, options, rows, COLUMNS, ({ name, source, reference, updatedAtMs }) => ({
        name,
        source,
        reference,
        updated: new Date(updatedAtMs).toISOString(),
      }))
    })
}

function removeCommand(context: CliContext): Command {
  return new Command('remove')
    .description('remove a secret, and its value if Craik stores it')
    .argument('<name>', 'name of the secret')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik secret remove OPENAI_API_KEY\n')
    .action(async (name: string, options: FormatOptions) => {
      await deleteSecret(await context.store(), await context.operator(), name)
      printRecord(context, options, { name, removed: true }, () => formatLine('removed', name))
    })
}

function checkCommand(context: CliContext): Command {
  return new Command('check')
    .description('check that Craik can read the value of a secret, without printing it')
    .argument('<name>', 'name of the secret')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik secret check OPENAI_API_KEY\n')
    .action(async (name: string, options: FormatOptions) => {
      parseSecretName(name)
      const entry = (await listSecrets(await context.store())).find((row) => row.name === name)
      if (entry === undefined) throw unknownSecret(name)
      const { source, reference } = entry
      const problem = await tryResolving(context, name)
      if (problem === undefined) {
        printRecord(context, options, { name, source, reference, status: 'ok' }, () =>
          formatLine('ok', `${name} ← ${describeSource(entry)}`),
        )
        return
      }
      const { message, hint } = problem
      context.setExitCode(problem.exitCode)
      printRecord(
        context,
        options,
        { name, source, reference, status: 'unavailable', reason: message, hint },
        () => formatLine('unavailable', message) + formatLine('', hint),
      )
    })
}

/** Returns why the secret cannot be read, or undefined. Throws errors that are not about the secret. */
async function tryResolving(context: CliContext, name: string): Promise<CraikError | undefined> {
  try {
    const value = await resolveSecret(
      await context.store(),
      context.home,
      context.environment,
      name,
      context.signal,
      context.kill,
    )
    value.fill(0)
    return undefined
  } catch (error) {
    if (error instanceof CraikError && ABOUT_THE_SECRET.has(error.code)) return error
    throw error
  }
}

const ABOUT_THE_SECRET: ReadonlySet<string> = new Set([
  'unavailable',
  'key_exposed',
  'key_unreadable',
  'store_damaged',
])

function formatLine(verb: string, text: string): string {
  return verb === '' ? `    ${printable(text)}\n` : `  ${verb}  ${printable(text)}\n`
}
