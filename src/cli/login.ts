/** `craik login`, `logout` and `whoami`: select and show the operator of this home. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { formatOption, printRecord } from './output.ts'

const LOGIN_HELP = `
Receipts name this user (the operator) from now on, until craik logout. Craik
asks for no password: a login records who acts, and proves nothing. craik agent
needs it; other commands otherwise act as your user on this machine.

This is not the login of an agent: log in to Claude Code, Codex or GitHub with
their own programs. To list those logins, run craik accounts.

Example:
  craik login --as ada
`

export const loginCommand: NounBuilder = (context) =>
  new Command('login')
    .option('--as <name>', 'act as operator:NAME (default: your user name on this machine)')
    .addOption(formatOption())
    .addHelpText('after', LOGIN_HELP)
    .action(async (flags: { readonly as?: string; readonly format?: string }) => {
      const { logIn, operatorSubject } = await import('../run/agents/operator-login.ts')
      const subject = flags.as === undefined ? context.localUser : operatorSubject(flags.as)
      const { login, began, replaced, receipt } = await logIn(await context.store(), subject)
      const record = {
        subject: login.subject,
        issuer: login.issuer,
        since: new Date(login.sinceMs).toISOString(),
        began,
        replaced,
        receipt_id: receipt?.id ?? null,
      }
      printRecord(context, flags, record, () =>
        began
          ? `  ${subject} is now the operator${replaced === null ? '' : `, instead of ${replaced}`}\n  receipt ${receipt?.id}\n`
          : `  ${subject} is already logged in, since ${record.since}\n`,
      )
    })

export const logoutCommand: NounBuilder = (context) =>
  new Command('logout')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nCommands then act as your user on this machine again. The logins of agents stay.\n\nExample:\n  craik logout\n',
    )
    .action(async (flags: { readonly format?: string }) => {
      const { logOut } = await import('../run/agents/operator-login.ts')
      const { login, receipt } = await logOut(await context.store())
      const record = { subject: login.subject, ended: true, receipt_id: receipt.id }
      printRecord(
        context,
        flags,
        record,
        () =>
          `  ${login.subject} is logged out; commands act as ${context.localUser} again\n  receipt ${receipt.id}\n`,
      )
    })

export const whoamiCommand: NounBuilder = (context) =>
  new Command('whoami')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik whoami --format json\n')
    .action(async (flags: { readonly format?: string }) => {
      const { activeLogin } = await import('../run/agents/operator-login.ts')
      const login = await activeLogin(await context.store())
      const record = {
        subject: login?.subject ?? context.localUser,
        logged_in: login !== undefined,
        issuer: login?.issuer ?? null,
        since: login === undefined ? null : new Date(login.sinceMs).toISOString(),
      }
      printRecord(context, flags, record, () =>
        login === undefined
          ? `  ${record.subject} · not logged in\n  log in:  craik login\n`
          : `  ${record.subject} · ${login.issuer} login since ${record.since}\n`,
      )
    })
