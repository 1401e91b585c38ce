/** `craik profile-new` and `craik profile-list`. */
import { Command } from 'commander'
import { parseLogin } from '../../login-sandbox/names.ts'
import {
  createProfile,
  type ProfileValues,
  profileNames,
  profilesFolder,
  readProfile,
} from '../../login-sandbox/profile.ts'
import type { NounBuilder } from '../context.ts'
import { type Column, chosenFormat, formatOption, printable, printRecord, printRows } from '../output.ts'

interface NewOptions {
  readonly login?: string
  readonly workspace?: string
  readonly refuse?: string
  readonly inbox?: string
  readonly format?: string
}

const NEW_HELP = `
A file of variables that you can edit: whose sandbox it is, what it works on, which variables are refused. With a login in it,
craik up refuses to start (78) when GitHub’s login on this machine is another one.

Example:
  craik profile-new work --login octo --workspace ~/work --refuse '^ACME_'
`

export const profileNewCommand: NounBuilder = (context) =>
  new Command('profile-new')
    .argument('<name>', 'letters, digits and . _ -')
    .option('--login <name>', 'whose sandbox it is')
    .option('--workspace <folder>', 'the folder that it works on')
    .option('--refuse <pattern>', 'a regular expression of names of variables that are refused')
    .option('--inbox <folder>', 'where conversations are saved')
    .addOption(formatOption())
    .addHelpText('after', NEW_HELP)
    .action((name: string, { login, workspace, refuse, inbox, format }: NewOptions) => {
      const values: ProfileValues = {
        ...(login !== undefined && { SANDBOX_LOGIN: parseLogin(login, '--login') }),
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
  { title: 'workspace', value: ({ workspace }) => workspace ?? '–', shortens: true },
  { title: 'problem', value: ({ problem }) => problem ?? '', shortens: true },
]

export const profileListCommand: NounBuilder = (context) =>
  new Command('profile-list')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik profile-list\n')
    .action((options: { readonly format?: string }) => {
      const rows = profileNames(context.environment).map((name) => rowOf(context.environment, name))
      if (rows.length === 0 && chosenFormat(context, options) === 'table')
        context.stdout.write(
          `  none in ${printable(profilesFolder(context.environment))}; make one:  craik profile-new NAME\n`,
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
