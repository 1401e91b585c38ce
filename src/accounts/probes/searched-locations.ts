/** The locations of the programs' files, by the environment variables that the programs read. */
import { isAbsolute, join, relative } from 'node:path'
import type { HostEnvironment } from '../probe-result.ts'

/** Returns the folder that a variable names. An empty or relative value counts as not set. */
export function configFolderOf(
  { environment, userHome }: HostEnvironment,
  variable: string,
  usual: readonly string[],
): string {
  const named = environment[variable]
  return named !== undefined && isAbsolute(named) ? named : join(userHome, ...usual)
}

/** Returns the path with `~` for the home folder. */
export function shortenHome({ userHome }: HostEnvironment, path: string): string {
  const inside = relative(userHome, path)
  return inside.startsWith('..') || isAbsolute(inside) ? path : `~/${inside}`
}

/** How long an answer of the keychain is valid. A logout therefore ends access within seconds. */
const KEYCHAIN_MS = 5_000

export function keychainLocation({ platform }: HostEnvironment): readonly string[] {
  return platform === 'darwin' ? ['the keychain'] : []
}

export function keychainStamp({ platform, nowMs }: HostEnvironment): string {
  return platform === 'darwin' ? `keychain:${Math.floor(nowMs() / KEYCHAIN_MS)}` : ''
}
