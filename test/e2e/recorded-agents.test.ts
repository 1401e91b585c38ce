/**
 * The real agents in a login sandbox write through the links into its volume. The next sandbox and the host find their
 * conversations and their configured MCP servers there.
 */
import { globSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LLM_STATE, VOLUME_LINKS } from '../../src/login-sandbox/keep/mirrors.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import { HARNESSES_MS } from '../harness-image.ts'
import { FaultyAnswers } from '../harnesses/agent-providers.ts'
import {
  AGENTS,
  type AgentName,
  expectRan,
  logInFor,
  openPrompts,
  prompt,
} from '../harnesses/prompt-scene.ts'

const SANDBOX = 'octo-sandbox'
const NAMES = Object.keys(AGENTS) as AgentName[]
/** The command that adds a server of the user to each agent. Kimi has no such command, so its file is written. */
const ADD: Readonly<Record<AgentName, string>> = {
  'claude-code': 'claude mcp add -s user kept-server -- /bin/true',
  codex: 'codex mcp add kept-server -- /bin/true',
  gemini: 'gemini mcp add -s user kept-server /bin/true',
  opencode: 'opencode mcp add kept-server -- /bin/true',
  kimi: `echo '{"mcpServers":{"kept-server":{"command":"/bin/true"}}}' >"$HOME/.kimi-code/mcp.json"`,
}
/** The file in the volume that contains the server afterwards. */
const ADDED: Readonly<Record<AgentName, string>> = {
  'claude-code': 'claude/claude.json',
  codex: 'codex/config.toml',
  gemini: 'gemini/settings.json',
  opencode: 'opencode/config/opencode.json',
  kimi: 'kimi/mcp.json',
}

describe('agents in a login sandbox', () => {
  let scene: LoginScene
  let upArgs: readonly string[]

  /** Runs a script with `craik exec … sh -c`, and expects it to succeed. */
  const sh = async (script: string): Promise<string> => {
    const args = ['exec', '--login', 'octo', '--', '/bin/sh', '-c', script]
    const { code, stdout, stderr } = await scene.home.run(args, { timeoutMs: 120_000 })
    expect(code, stdout + stderr).toBe(0)
    return stdout
  }
  const links = async () =>
    (await sh(`cd; find . -type l -lname '*/${LLM_STATE}/*'`)).split('\n').filter(Boolean).sort()
  const ALL = VOLUME_LINKS.map(({ home }) => `./${home}`).sort()

  beforeAll(async () => {
    scene = await openPrompts({ identity: 'root' }, new FaultyAnswers().answer)
    for (const name of NAMES) await logInFor(scene, name)
    const workspace = scene.home.workspace('workspace')
    upArgs = ['--login', 'octo', '--backend', 'process', '--workspace', workspace, '--format', 'json']
    await scene.home.json(['up', '--no-attach', ...upArgs], { timeoutMs: HARNESSES_MS })
  }, HARNESSES_MS)
  afterAll(() => scene?.[Symbol.asyncDispose]())

  it.each(NAMES)('%s runs a prompt, and accepts an MCP server', async (name) => {
    const command = `echo made > proof-${name}.txt`
    const prompted = await prompt(scene, `RUN: ${command}`, ['--harness', name, '--sandbox', SANDBOX])
    expect(prompted, JSON.stringify(prompted, null, 1)).toMatchObject({ code: 0 })
    expectRan(prompted, command)
    await sh(ADD[name])
    expect(await sh(`cat "$HOME/${LLM_STATE}/${ADDED[name]}"`)).toContain('kept-server')
  })

  it('keep every link a link, and store no login behind one', async () => {
    expect(await links()).toEqual(ALL)
    expect(await sh(`cd "$HOME/${LLM_STATE}" && find . -name '*cred*' -o -name auth.json`)).toBe('')
    const volumes = join(scene.home.home, 'volumes')
    expect(await scene.hunt({}, ['/opt/craik-harnesses'], [volumes])).toEqual([])
  })

  it('find everything again in a recreated sandbox, and their conversations are in the inbox', async () => {
    await scene.home.json(['rebuild', '--yes', ...upArgs], { timeoutMs: HARNESSES_MS })
    const saved = globSync(scene.home.path('inbox/conversations/*/*.md')).map((path) => basename(path))
    expect(saved.sort()).toEqual(NAMES.map((name) => `run-echo-made-proof-${name}-txt.md`).sort())
    for (const name of NAMES)
      expect(await sh(`cat "$HOME/${LLM_STATE}/${ADDED[name]}"`)).toContain('kept-server')
    expect(await links()).toEqual(ALL)
    expect(await sh('codex mcp list 2>/dev/null')).toContain('kept-server')
    expect(await sh('claude mcp get kept-server')).toContain('/bin/true')
  })
})
