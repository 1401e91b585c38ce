/** The commands with which a user logs in, for the first time or again. */
import { claudeCodeFormat } from './logins/claude-code.ts'
import { codexFormat } from './logins/codex.ts'
import { geminiFormat } from './logins/gemini.ts'
import { kimiFormat } from './logins/kimi.ts'

/** By program, which is the first part of its account ids. */
export const LOGIN_COMMANDS = {
  'claude-code': claudeCodeFormat.loginCommand,
  codex: codexFormat.loginCommand,
  gemini: geminiFormat.loginCommand,
  kimi: kimiFormat.loginCommand,
  opencode: 'opencode auth login',
  github: 'gh auth login',
} as const

/** Returns `undefined` when the login belongs to no program. */
export function loginCommandOf(accountId: string): string | undefined {
  const [program = ''] = accountId.split('/')
  return Object.hasOwn(LOGIN_COMMANDS, program)
    ? LOGIN_COMMANDS[program as keyof typeof LOGIN_COMMANDS]
    : undefined
}

/** Returns the command as a hint. */
export function logInAgain(accountId: string): string {
  const [kind, name] = accountId.split('/')
  if (kind === 'secret') return `set it again:  craik secret set ${name}`
  if (kind === 'env') return `set the variable ${name} to a valid key, then run:  craik sandbox logins ID`
  const command = loginCommandOf(accountId)
  return command === undefined
    ? `log in again with the program that stored the login ${accountId}`
    : `log in again:  ${command}`
}
