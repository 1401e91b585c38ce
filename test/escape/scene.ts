/** The targets of an attack: a sandbox in a home, and a host folder beside it. */
import { expect } from 'vitest'
import type { LiveSandbox, SandboxHome } from '../sandbox-home.ts'
import { python, verdict } from './attack.ts'
import { runWithout, type Without, type WithoutOptions } from './weakened-sandbox.ts'

export interface Scene {
  readonly home: SandboxHome
  /** A sandbox with default settings. Attacks that would stop it create one of their own. */
  readonly box: LiveSandbox
  /** A host folder that every user can write to. */
  readonly outside: string
}

/** Registers tests. The scene exists when they run. */
export type Scenario = (scene: () => Scene) => void

export const IS_ROOT = process.getuid?.() === 0

/** Expects that the attack succeeds without the defense. Every test does this first. */
export async function expectToWork(
  without: Without,
  program: string,
  args: readonly string[] = [],
  options: WithoutOptions = {},
): Promise<void> {
  const outcome = await runWithout(without, python(program, args), options)
  expect(verdict(outcome), 'without the defence').toBe('succeeded')
}

/** Runs the attack in a sandbox and returns its verdict. */
export async function tryIn(
  box: LiveSandbox,
  program: string,
  args: readonly string[] = [],
): Promise<string> {
  return verdict(await box.exec(python(program, args)))
}
