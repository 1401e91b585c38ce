/** Finds the noun, loads only its file, and parses the arguments with commander. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { packageFile } from '../lib/package-files.ts'
import { joinCommand } from '../lib/shlex.ts'
import type { CliContext } from './context.ts'
import type { Noun } from './nouns.ts'

/** No reasonable argument is longer. Larger values come through stdin or files. */
const MAX_ARGUMENT_BYTES = 64 * 1024
const MAX_ARGUMENTS = 4096
const HELP_FLAGS: ReadonlySet<string> = new Set(['--help', '-h'])

export async function runCommand(
  context: CliContext,
  nouns: readonly Noun[],
  argv: readonly string[],
): Promise<void> {
  refuseHugeArguments(argv)
  const [nounName, verb] = argv.filter((argument) => !argument.startsWith('-'))
  const named = nouns.find((noun) => noun.name === nounName)
  const asksForHelp = argv.length === 0 || argv[0] === 'help' || argv.some((one) => HELP_FLAGS.has(one))
  const isAll = asksForHelp && argv.includes('--all') && [undefined, 'help'].includes(nounName) && !verb
  const program = new Command('craik')
    .description(DESCRIPTION)
    .version(version(), '-V, --version')
    .helpOption('-h, --help')
    // Options after the program of `craik exec` belong to that program.
    .enablePositionalOptions()
    .addHelpText('after', isAll ? ALL_HELP : START_HELP)
  // Commander suggests only visible commands for a mistyped one, so commands are hidden only in the help.
  if (asksForHelp && !isAll)
    program.configureHelp({ visibleCommands: startCommands(nouns), visibleOptions: () => [] })
  for (const noun of nouns) {
    const command =
      noun === named
        ? withExample((await (await noun.load())(context, verb)).description(noun.summary), noun.example)
        : new Command(noun.name).description(noun.summary)
    program.addCommand(command.helpGroup(isAll ? noun.group : (noun.startGroup ?? noun.group)))
  }
  program.helpCommand('help [command]', 'show help for a command')
  prepare(program, context)
  if (argv.length === 0 || isAll) return program.outputHelp()
  if (argv[0] === 'help' && named === undefined) return helpFor(context, nouns, program, argv.slice(1))
  try {
    await program.parseAsync(argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return
    throw usage(error, suggestDashes(program, argv))
  }
}

function withExample(command: Command, example: string | undefined): Command {
  return example === undefined ? command : command.addHelpText('after', `\nExample:\n  ${example}\n`)
}

function startCommands(nouns: readonly Noun[]): (program: Command) => Command[] {
  const names = new Set(nouns.filter(({ startGroup }) => startGroup !== undefined).map(({ name }) => name))
  return ({ commands }) => commands.filter((command) => names.has(command.name()))
}

async function helpFor(
  context: CliContext,
  nouns: readonly Noun[],
  program: Command,
  names: readonly string[],
): Promise<void> {
  const noun = nouns.find((candidate) => candidate.name === names[0])
  if (noun !== undefined) return runCommand(context, nouns, [...names, '--help'])
  if (names[0] !== undefined)
    throw new CraikError('usage', `unknown command '${names[0]}'`, {
      hint: 'list all commands:  craik help --all',
    })
  program.outputHelp()
}

/** Makes every level throw instead of exiting, and print through the context. */
function prepare(command: Command, context: CliContext): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => context.stdout.write(text),
    writeErr: () => {},
    getOutHelpWidth: () => Math.min(context.stdout.columns ?? 100, 110),
  })
  command.helpCommand(false)
  acceptJson(command)
  for (const child of command.commands) prepare(child, context)
}

/** `--json` means `--format json` in commands that have a format. The last of the two counts. */
function acceptJson(command: Command): void {
  const format = command.options.find(({ long }) => long === '--format')
  if (!format?.argChoices?.includes('json')) return
  command.addOption(new Option('--json', 'the same as --format json').hideHelp())
  command.on('option:json', () => command.setOptionValueWithSource('format', 'json', 'cli'))
}

/** Returns the command to type instead, if options of a program were parsed as options of the command that runs it. */
function suggestDashes(program: Command, argv: readonly string[]): string | undefined {
  const [noun, verb, id, ...rest] = argv
  const found = program.commands
    .find((command) => command.name() === noun)
    ?.commands.find((command) => command.name() === verb)
  if (found === undefined || !found.usage().includes(' -- ') || argv.includes('--')) return undefined
  if (id === undefined || id.startsWith('-') || rest.length === 0 || rest[0]!.startsWith('-'))
    return undefined
  return `put -- before the command:  craik ${noun} ${verb} ${joinCommand([id])} -- ${joinCommand(rest)}`
}

function usage(error: CommanderError, instead: string | undefined): CraikError {
  if (error.code === 'commander.unknownOption' && instead !== undefined)
    return new CraikError('usage', error.message.replace(/^error: /, '').split('\n')[0]!, { hint: instead })
  // For a noun without a verb, commander prints the help to stderr and has no message.
  if (error.code === 'commander.help') return new CraikError('usage', 'a subcommand is missing')
  // The message repeats what the user typed, so this shortens it.
  const whole = error.message.replace(/^error: /, '').replace(/'([^']{60})[^']+'/g, "'$1…'")
  const [message, ...rest] = whole.split('\n')
  const suggestion = rest.join(' ').replace(/^\(|\)$/g, '')
  return new CraikError('usage', message!, suggestion === '' ? {} : { hint: suggestion })
}

function refuseHugeArguments(argv: readonly string[]): void {
  const size = Math.max(0, ...argv.map((argument) => Buffer.byteLength(argument)))
  if (argv.length > MAX_ARGUMENTS)
    throw new CraikError('too_large', `${argv.length.toLocaleString('en')} arguments are too many`, {
      hint: `pass at most ${MAX_ARGUMENTS.toLocaleString('en')}`,
    })
  if (size <= MAX_ARGUMENT_BYTES) return
  throw new CraikError('too_large', `an argument of ${size.toLocaleString('en')} bytes is too large`, {
    hint: `pass at most ${MAX_ARGUMENT_BYTES.toLocaleString('en')} bytes each, and larger values through stdin or a file`,
  })
}

function version(): string {
  return (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version
}

const DESCRIPTION = `Run coding agents in sandboxes. Craik allows or denies each request that enters
or leaves a sandbox, and records every decision in a signed receipt.`

const EXIT_CODES = 'Common exit codes: 0 done, 1 failed check, 2 usage, 3 unknown id, 77 denied.'

const START_HELP = `
All: craik help --all    One command and its exit codes: craik help COMMAND
${EXIT_CODES}`

const ALL_HELP = `
Examples:
  craik up                                     start your sandbox
  craik demo persistent-agent --repo-path .    show a complete run, offline
  craik shell 'npm test'                       run a command, with a receipt
  craik receipts list                          list decisions, newest first
  craik receipts verify                        verify the whole log

${EXIT_CODES}
The help of a command names its own. All exit codes: docs/reference/errors.md`
