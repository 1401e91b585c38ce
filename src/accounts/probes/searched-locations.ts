/** Where programs keep their files, by the variables that they themselves go by. */
import { isAbsolute, join, relative } from 'node:path'
import type { HostEnvironment } from '../probe-result.ts'

/** The folder that a variable names; what is empty or relative counts as not set. */
export function configFolderOf(
  { environment, userHome }: HostEnvironment,
  variable: string,
  usual: readonly string[],
): string {
  const named = environment[variable]
  return named !== undefined && isAbsolute(named) ? named : join(userHome, ...usual)
}

/** A path as a person knows it. */
export function shortenHome({ userHome }: HostEnvironment, path: string): string {
  const inside = relative(userHome, path)
  return inside.startsWith('..') || isAbsolute(inside) ? path : `~/${inside}`
}

/** How long an answer of the keychain is good for: a logout ends access within seconds. */
const KEYCHAIN_MS = 5_000

export function keychainLocation({ platform }: HostEnvironment): readonly string[] {
  return platform === 'darwin' ? ['the keychain'] : []
}

export function keychainStamp({ platform, nowMs }: HostEnvironment): string {
  return platform === 'darwin' ? `keychain:${Math.floor(nowMs() / KEYCHAIN_MS)}` : ''
}
