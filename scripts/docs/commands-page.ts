/**
 * Builds `docs/reference/commands.md`: every command as its program describes it. The page depends on neither the host
 * nor the environment.
 */
import type { Argument, Command, Option } from 'commander'
import type { CliContext } from '../../src/cli/context.ts'
import { NOUNS, type Noun } from '../../src/cli/nouns.ts'
import { JSON_HELP } from '../../src/cli/output.ts'
import { anchorOf, escapeText, sentence, table, wrap } from './markdown.ts'

const INTRO = `# Commands

Generated from the code by \`npm run docs\`. \`craik COMMAND --help\` prints the same text, and \`craik help --all\`
lists the groups.

Every command has \`-h, --help\`. \`craik --version\` prints the version. All exit codes: [errors](errors.md). Files and
environment variables: [configuration](configuration.md).`

/**
 * Throws when a command reads the context while it is only described, because the page would then depend on the host.
 */
const NO_CONTEXT = new Proxy({} as CliContext, {
  get(_, name) {
    throw new Error(`the description of a command depends on context.${String(name)}`)
  },
})

interface Described {
  readonly noun: Noun
  readonly command: Command
}

export async function commandsPage(): Promise<string> {
  const all: Described[] = []
  for (const noun of NOUNS) all.push({ noun, command: await (await noun.load())(NO_CONTEXT) })
  const groups = Map.groupBy(all, ({ noun }) => noun.group.replace(/:$/, ''))
  const contents = [...groups].map(
    ([group, members]) => `**[${group}](#${anchorOf(group)})**\n\n${members.map(contentsEntry).join('\n')}`,
  )
  const chapters = [...groups].map(
    ([group, members]) => `## ${group}\n\n${members.map(nounSection).join('\n\n')}`,
  )
  return `${[INTRO, '## Contents', ...contents, ...chapters].join('\n\n')}\n`
}

function contentsEntry({ noun, command }: Described): string {
  const verbs = visible(command).flatMap((verb) => [verb, ...visible(verb)])
  const links = verbs.map((verb) => {
    const path = pathOf(verb, command)
    return `[${path.replace(`craik ${noun.name} `, '').replaceAll(' ', '\u00a0')}](#${anchorOf(path)})`
  })
  const entry = `- [\`craik ${noun.name}\`](#craik-${noun.name}): ${escapeText(noun.summary)}`
  return links.length === 0 ? entry : `${entry}\n${wrap(links.join(', '), '  ')}`
}

function nounSection({ noun, command }: Described): string {
  const own = section(command, noun.summary, `craik ${noun.name}`, 3)
  return [own, ...verbSections(command, command, 4)].join('\n\n')
}

function verbSections(command: Command, noun: Command, level: number): string[] {
  return visible(command).flatMap((verb) => [
    section(verb, verb.description(), pathOf(verb, noun), level),
    ...verbSections(verb, noun, Math.min(level + 1, 5)),
  ])
}

function section(command: Command, summary: string, path: string, level: number): string {
  const { prose, examples } = textsAfter(command)
  const verbs = visible(command)
  const rows = [...argumentRows(command), ...command.options.filter(({ hidden }) => !hidden).map(optionRow)]
  return [
    `${'#'.repeat(level)} ${path}`,
    wrap(escapeText(sentence(summary))),
    ...(command.aliases().length > 0
      ? [
          `Alias: ${command
            .aliases()
            .map((name) => `\`${name}\``)
            .join(', ')}`,
        ]
      : []),
    fence(`${path} ${usageOf(command)}`.trim()),
    ...(verbs.length > 0
      ? [
          table(
            ['verb', 'task'],
            verbs.map((verb) => verbRow(verb, path)),
          ),
        ]
      : []),
    ...(rows.length > 0 ? [table(['argument or option', 'meaning'], rows)] : []),
    ...prose,
    ...(examples.length > 0 ? [fence(examples.join('\n'))] : []),
  ].join('\n\n')
}

function verbRow(verb: Command, path: string): readonly string[] {
  const whole = `${path} ${verb.name()}`
  return [`[\`${verb.name()}\`](#${anchorOf(whole)})`, escapeText(verb.description())]
}

function argumentRows(command: Command): readonly (readonly string[])[] {
  return command.registeredArguments
    .filter(({ description }) => description !== '')
    .map((argument) => [
      `\`${shape(argument)}\``,
      meaning(argument.description, argument.argChoices, argument.defaultValue),
    ])
}

function shape(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

function optionRow(option: Option): readonly string[] {
  const hasJson = option.long === '--format' && option.argChoices?.includes('json')
  const text = option.description.replace(`; ${JSON_HELP}`, '')
  const standard = option.negate ? undefined : option.defaultValue
  return [
    `\`${option.flags}\`${hasJson ? ', `--json`' : ''}`,
    meaning(text, option.argChoices, standard, option.defaultValueDescription),
  ]
}

/** Puts the choices before the default, in the order of a sentence. */
function meaning(
  description: string,
  choices: readonly string[] | undefined,
  standard: unknown,
  standardText?: string,
): string {
  const [, text = description, stated] = /^(.*) \(default: ([^()]*)\)$/s.exec(description) ?? []
  const shown = standard === undefined ? stated : (standardText ?? defaultText(standard))
  const named = choices === undefined ? '' : `; one of ${choices.map((choice) => `\`${choice}\``).join(', ')}`
  return `${escapeText(text)}${named}${shown === undefined ? '' : ` (default: ${escapeText(shown)})`}`
}

function defaultText(value: unknown): string {
  return value === true ? 'yes' : `\`${String(value)}\``
}

function usageOf(command: Command): string {
  const usage = command.usage().replace('[command]', 'VERB').replace(/ +/g, ' ')
  return command.options.length === 0 ? usage.replace(/^\[options\] ?/, '') : usage
}

function pathOf(command: Command, noun: Command): string {
  const names: string[] = []
  for (let one: Command | null = command; one !== null && one !== noun; one = one.parent)
    names.unshift(one.name())
  return ['craik', noun.name(), ...names].join(' ')
}

function visible(command: Command): readonly Command[] {
  return command.commands.filter((verb) => !(verb as { readonly _hidden?: boolean })._hidden)
}

/** Returns the text of `--help` below the options: paragraphs, and the example commands. */
function textsAfter(command: Command): { readonly prose: string[]; readonly examples: string[] } {
  let help = ''
  command.configureOutput({
    writeOut: (text) => {
      help += text
    },
    getOutHelpWidth: () => 1000,
  })
  command.outputHelp()
  const after = help.slice(command.helpInformation().length)
  const [before = '', examples = ''] = after.split(/^Examples?:$/m)
  return { prose: paragraphs(before), examples: linesOf(examples) }
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.replace(/^ {2}/, ''))
}

/** Joins the lines of paragraphs, because help texts are wrapped for a terminal. An indented line is a command. */
function paragraphs(text: string): string[] {
  const parts: { isCode: boolean; lines: string[] }[] = []
  for (const line of text.split('\n')) {
    const isCode = line.startsWith('  ')
    if (line === '') parts.push({ isCode: false, lines: [] })
    else if (parts.at(-1)?.isCode === isCode) parts.at(-1)!.lines.push(line)
    else parts.push({ isCode, lines: [line] })
  }
  return parts
    .filter(({ lines }) => lines.length > 0)
    .map(({ isCode, lines }) =>
      isCode ? fence(linesOf(lines.join('\n')).join('\n')) : wrap(escapeText(lines.join(' '))),
    )
}

function fence(text: string): string {
  return `\`\`\`sh\n${text}\n\`\`\``
}
