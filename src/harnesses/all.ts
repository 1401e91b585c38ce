/** All harnesses by name. */
import { CraikError } from '../errors.ts'
import { claudeCodeHarness } from './claude-code/harness.ts'
import { codexHarness } from './codex/harness.ts'
import { fixtureHarness } from './fixture/harness.ts'
import { geminiHarness } from './gemini/harness.ts'
import { HARNESS_NAMES, type Harness, type HarnessName } from './harness.ts'
import { kimiHarness } from './kimi/harness.ts'
import { opencodeHarness } from './opencode/harness.ts'

export const HARNESSES: Readonly<Record<HarnessName, Harness>> = {
  'claude-code': claudeCodeHarness,
  codex: codexHarness,
  gemini: geminiHarness,
  opencode: opencodeHarness,
  kimi: kimiHarness,
  fixture: fixtureHarness,
}

export function harnessNamed(name: string): Harness {
  if (Object.hasOwn(HARNESSES, name)) return HARNESSES[name as HarnessName]
  throw new CraikError('usage', `unknown harness: ${name}`, {
    hint: `use one of: ${HARNESS_NAMES.join(', ')}`,
  })
}
