/** The output of `--version` of each agent's program, for the pinned and tested versions. */
import { expect } from 'vitest'
import type { CommandResult } from './craik.ts'

export const VERSIONS = {
  claude: '2.1.325 (Claude Code)',
  'claude-agent-acp': '0.99.1',
  codex: 'codex-cli 0.166.0',
  'codex-acp': '@agentclientprotocol/codex-acp 2.6.0',
  'codex-acp-untrusting': '@agentclientprotocol/codex-acp 2.6.0',
  gemini: '0.61.0',
  kimi: '2.1.0',
  opencode: '1.18.33',
} as const

/**
 * Runs the programs by name, as a user types them. They run one after the other, because each takes a second of
 * processor time.
 */
export async function expectAllVersions(exec: (...argv: string[]) => Promise<CommandResult>): Promise<void> {
  const reply: Record<string, string | undefined> = {}
  for (const program of Object.keys(VERSIONS))
    reply[program] = (await exec(program, '--version')).stdout.trim().split('\n').at(-1)
  expect(reply).toEqual(VERSIONS)
}
