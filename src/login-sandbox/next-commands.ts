/** Commands that a person is told to type next: they are about the sandbox that was chosen, and never about another one. */
import { joinCommand } from '../lib/shlex.ts'
import type { LoginSandboxSettings, Typed } from './login-sandbox-settings.ts'

type Settings = Pick<LoginSandboxSettings, 'chosenBy'>

/** `craik VERB` for the sandbox of the same login. */
export function craikFor(verb: string, { chosenBy }: Settings, ...rest: readonly string[]): string {
  return joinCommand(['craik', verb, ...chosenBy, ...rest])
}

const ABOUT_PLACE = ['workspace', 'backend', 'credentials', 'harness', 'egress', 'apt', 'inbox'] as const

/** The same with everything else that was typed of what it is to be; `instead` takes the place of what was typed. */
export function craikAgain(
  verb: 'up' | 'rebuild',
  settings: Settings,
  typed: Typed,
  instead: Typed = {},
  ...rest: readonly string[]
): string {
  const all = { ...typed, ...instead }
  const flags = ABOUT_PLACE.flatMap((name) => {
    const value = all[name]
    return value === undefined ? [] : [`--${name}`, value]
  })
  return craikFor(verb, settings, ...flags, ...rest)
}
