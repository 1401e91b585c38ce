/** Every harness there is, by name. */
import { CraikError } from '../errors.ts'
import { claudeCode } from './claude-code/harness.ts'
import { codex } from './codex/harness.ts'
import { fixture } from './fixture/harness.ts'
import { gemini } from './gemini/harness.ts'
import { HARNESS_NAMES, type Harness, type HarnessName } from './harness.ts'
import { kimi } from './kimi/harness.ts'
import { opencode } from './opencode/harness.ts'

export const HARNESSES: Readonly<Record<HarnessName, Harness>> = {
  'claude-code': claudeCode,
  codex,
  gemini,
  opencode,
  kimi,
  fixture,
}

export function harnessNamed(name: string): Harness {
  if (Object.hasOwn(HARNESSES, name)) return HARNESSES[name as HarnessName]
  throw new CraikError('usage', `unknown harness: ${name}`, {
    hint: `use one of: ${HARNESS_NAMES.join(', ')}`,
  })
}
