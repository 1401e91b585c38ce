/** `craik profile-new` and `craik profile-list`: create a profile and list the profiles. */
import { Command } from 'commander'
import { parseLoginName } from '../../login-sandbox/login-names.ts'
import {
  createProfile,
  type ProfileValues,
  profileNames,
  profilesFolder,
  readProfile,
} from '../../login-sandbox/login-profile.ts'
import type { NounBuilder } from '../context.ts'
import {
  type Column,
  formatOption,
  printable,
  printRecord,
  printRows,
  printText,
  resolveFormat,
} from '../output.ts'

interface NewOptions {
  readonly login?: string
  readonly workspace?: string
  readonly refuse?: string
  readonly inbox?: string
  readonly format?: string
}

const NEW_HELP = `
Creates a file of variables that you can edit. If the profile names a login,
craik up exits with 78 when this machine has another GitHub login.

Example:
  craik profile-new work --login octo --workspace ~/work --refuse '^ACME_'
`

export const profileNewCommand: NounBuilder = (context) =>
  new Command('profile-new')
    .argument('<name>', 'profile name: letters, digits and . _ -')
    .option('--login <name>', 'name of the login sandbox, and the GitHub user name that it requires')
    .option('--workspace <folder>', 'your project folder, in which agents work')
    .option('--refuse <pattern>', 'do not start if the name of a variable matches this regular expression')
    .option('--inbox <folder>', 'folder for saved conversations and outputs')
    .addOption(formatOption())
    .addHelpText('after', NEW_HELP)
    .action((name: string, { login, workspace, refuse, inbox, format }: NewOptions) => {
      const values: ProfileValues = {
        ...(login !== undefined && { SANDBOX_LOGIN: parseLoginName(login, '--login') }),
        ...(workspace !== undefined && { SANDBOX_WORKSPACE: workspace }),
        ...(refuse !== undefined && { SANDBOX_REFUSE_PATTERNS: refuse }),
        ...(inbox !== undefined && { SANDBOX_INBOX_DIR: inbox }),
      }
      const path = createProfile(context.environment, name, values)
      printRecord(
        context,
        format === undefined ? {} : { format },
        { name, path },
        () => `  profile  ${name} · ${printable(path)}\n  next     craik up --profile ${name}\n`,
      )
    })

interface Row {
  readonly name: string
  readonly login: string | null
  readonly workspace: string | null
  readonly problem: string | null
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'profile', value: ({ name }) => name },
  { title: 'login', value: ({ login }) => login ?? '–' },
  { title: 'workspace', value: ({ workspace }) => workspace ?? '–', canShorten: true },
  { title: 'problem', value: ({ problem }) => problem ?? '', canShorten: true },
]

export const profileListCommand: NounBuilder = (context) =>
  new Command('profile-list')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik profile-list\n')
    .action((options: { readonly format?: string }) => {
      const rows = profileNames(context.environment).map((name) => rowOf(context.environment, name))
      if (rows.length === 0 && resolveFormat(context, options) === 'table')
        printText(
          context,
          `  no profiles in ${printable(profilesFolder(context.environment))}; create one:  craik profile-new NAME\n`,
        )
      else printRows(context, options, rows, COLUMNS, (row) => ({ ...row }))
    })

function rowOf(environment: NodeJS.ProcessEnv, name: string): Row {
  try {
    const { SANDBOX_LOGIN, SANDBOX_WORKSPACE } = readProfile(environment, name).values
    return { name, login: SANDBOX_LOGIN ?? null, workspace: SANDBOX_WORKSPACE ?? null, problem: null }
  } catch (error) {
    return { name, login: null, workspace: null, problem: (error as Error).message }
  }
}
