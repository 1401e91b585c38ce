/** What an attack finds: a sandbox in a home, and a folder of the host beside it. */
import { expect } from 'vitest'
import type { LiveSandbox, SandboxHome } from '../sandbox-home.ts'
import { python, verdict } from './attack.ts'
import { runWithout, type Without, type WithoutOptions } from './weakened-sandbox.ts'

export interface Scene {
  readonly home: SandboxHome
  /** Without anything special about it; attacks that would end it make one of their own. */
  readonly box: LiveSandbox
  /** A folder of the host that everybody may write to. */
  readonly outside: string
}

/** Registers tests; the scene is there when they run. */
export type Scenario = (scene: () => Scene) => void

export const IS_ROOT = process.getuid?.() === 0

/** First of all: the attack works where what stops it is missing. */
export async function expectToWork(
  without: Without,
  program: string,
  args: readonly string[] = [],
  options: WithoutOptions = {},
): Promise<void> {
  const outcome = await runWithout(without, python(program, args), options)
  expect(verdict(outcome), 'without the defence').toBe('succeeded')
}

/** What became of it in a sandbox. */
export async function tryIn(
  box: LiveSandbox,
  program: string,
  args: readonly string[] = [],
): Promise<string> {
  return verdict(await box.exec(python(program, args)))
}
