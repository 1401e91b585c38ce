/**
 * Formats the commands that Craik suggests to the user. They always refer to the selected sandbox, never to another
 * one.
 */
import { joinCommand } from '../lib/shlex.ts'
import type { LoginSandboxSettings, TypedOptions } from './login-sandbox-settings.ts'

type Settings = Pick<LoginSandboxSettings, 'selectingOptions'>

/** Returns `craik VERB` for the sandbox of the same login. */
export function formatCommand(
  verb: string,
  { selectingOptions: chosenBy }: Settings,
  ...rest: readonly string[]
): string {
  return joinCommand(['craik', verb, ...chosenBy, ...rest])
}

const SANDBOX_OPTIONS = ['workspace', 'backend', 'credentials', 'harness', 'egress', 'apt', 'inbox'] as const

/** Returns the command with all other typed options for the sandbox. Options in `instead` replace the typed ones. */
export function formatRepeatCommand(
  verb: 'up' | 'rebuild',
  settings: Settings,
  typed: TypedOptions,
  instead: TypedOptions = {},
  ...rest: readonly string[]
): string {
  const all = { ...typed, ...instead }
  const flags = SANDBOX_OPTIONS.flatMap((name) => {
    const value = all[name]
    return value === undefined ? [] : [`--${name}`, value]
  })
  return formatCommand(verb, settings, ...flags, ...rest)
}
