/**
 * The main use of Craik, in a container: the user has a login on the host, runs `craik up` and types the agent's name,
 * and the agent answers.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { HARNESSES_MS, readyHarnessImage } from '../harness-image.ts'
import { DONE } from '../harnesses/agent-model.ts'
import { FaultyAnswers } from '../harnesses/agent-providers.ts'
import { AGENTS, type AgentName, logInFor } from '../harnesses/prompt-scene.ts'
import { hazards } from '../login-sandbox/hazards.ts'
import { LoginSandboxScene } from '../login-sandbox/scene.ts'

const NAMES = Object.keys(AGENTS) as AgentName[]

describe.skipIf(ENGINE_IS_NEEDED)(`a login sandbox, as a container ${ENGINE_IS_NEEDED ?? ''}`, () => {
  let here: LoginSandboxScene
  const reals: Partial<Record<AgentName, string>> = {}
  const screens: Record<string, string> = {}

  beforeAll(async () => {
    await readyHarnessImage()
    here = await LoginSandboxScene.open({ identity: 'root', backend: 'docker' }, new FaultyAnswers().answer)
    reals['claude-code'] = await logInFor(here.scene, 'claude-code')
  }, HARNESSES_MS)
  afterAll(() => here?.[Symbol.asyncDispose]())

  it('answers when the user types `claude`, with a home that has only its login, and keeps the conversation', async () => {
    using terminal = here.terminal(['up'])
    await terminal.says('octo-sandbox ~/project $')
    terminal.typeText('claude\r')
    await terminal.says('auto mode on')
    await type(terminal, 'RUN: echo made > proof.txt')
    await terminal.says('Thatisdone', undefined, plainText)
    screens.claude = terminal.screen
    terminal.typeText('\x03')
    await terminal.says('again to exit')
    terminal.typeText('\x03')
    await terminal.says(
      'octo-sandbox ~/project $',
      undefined,
      (screen) => screen.split('claude --resume')[1] ?? '',
    )
    terminal.typeText('exit\r')
    expect(await terminal.exited).toBe(0)
    expect(readFileSync(join(here.workspace, 'proof.txt'), 'utf8')).toBe('made\n')
    expect(terminal.screen).toMatch(/accounts claude-code ✓.*not logged in: codex/)
    expect(terminal.screen).toMatch(/saved 1 conversation → .*\/inbox\/conversations\//)
    const conversations = Object.entries(here.readSaved()).filter(([path]) =>
      path.startsWith('conversations/'),
    )
    expect(conversations).toHaveLength(1)
    expect(conversations[0]![1]).toMatch(/## user\n\nRUN: echo made.*## assistant\n.*That is done/s)
    for (const { headers } of here.scene.providers.take())
      expect(JSON.stringify(headers)).toContain(reals['claude-code'])
  })

  it.each([
    ['codex', 'codex', 'default·~/project'],
    ['gemini', 'gemini', 'Typeyourmessage'],
  ] as const)(
    'answers when the user types `%s`, once its login is on the host',
    async (name, program, ready) => {
      reals[name] = await logInFor(here.scene, name)
      using terminal = here.terminal(['up'])
      await terminal.says('octo-sandbox ~/project $')
      terminal.typeText(`${program}\r`)
      await terminal.says(ready, undefined, plainText)
      await type(terminal, `say hello to ${name}`)
      await terminal.says('Heard:')
      screens[name] = terminal.screen
      const calls = here.scene.providers.take().filter(({ service }) => service === AGENTS[name].service)
      expect(calls.length).toBeGreaterThan(0)
      for (const { headers } of calls) expect(JSON.stringify(headers)).toContain(reals[name])
    },
  )

  it('reports for each agent whether it answers a real prompt', async () => {
    for (const name of NAMES) reals[name] ??= await logInFor(here.scene, name)
    await here.up()
    const { code, stdout, stderr } = await here.run(['verify-llm-auth', '--format', 'json'])
    expect({ code, stderr, rows: JSON.parse(stdout) }, stdout).toMatchObject({
      code: 0,
      rows: NAMES.map(() => ({ result: 'answers' })),
    })
    await here.run(['save'])
    expect(
      Object.entries(here.readSaved()).filter(([, text]) => text.includes('the one word: ready')),
    ).toEqual([])
    here.scene.logOut('codex')
    const without = JSON.parse((await here.run(['verify-llm-auth', '--format', 'json'])).stdout)
    expect(without).toContainEqual(expect.objectContaining({ harness: 'codex', result: 'not logged in' }))
  })

  it('loses no persistent data when its supervisor and its container are killed', async () => {
    await here.inside('echo kept > ~/.local/kept; claude -p "say hello before the end" > /dev/null')
    const { id } = await here.up()
    const { docker } = await openEngine(process.env)
    // Other tests have sandboxes on the same engine.
    const label = [`craik.sandbox=${id}`]
    const [container] = await docker.listContainers({ filters: { label } })
    const status = ['supervisor', 'status', '--format', 'json']
    const { pid } = await here.scene.home.json<{ readonly pid: number }>(status)
    process.kill(pid, 'SIGKILL')
    await docker.getContainer(container!.Id).kill()
    expect(await here.up()).toMatchObject({ sandbox: 'octo-sandbox' })
    expect(await here.inside('cat ~/.local/kept')).toBe('kept\n')
    expect(
      Object.keys(here.readSaved()).filter((path) => path.includes('say-hello-before-the-end')),
    ).toHaveLength(1)
  })

  describe('of a user with GitHub', () => {
    beforeAll(async () => {
      here.logInToGitHub('octo')
      await here.run(['down'])
      await here.up()
    })
    hazards(() => here)
  })

  it('has the requested Debian packages after a rebuild, and keeps its persistent data', async () => {
    expect(await here.run(['up', '--no-attach', '--apt', 'jq'])).toMatchObject({ code: 4 })
    const { code, stderr } = await here.run(['rebuild', '--apt', 'jq', '--harness', 'kimi'])
    expect({ code, stderr }).toMatchObject({ code: 0 })
    expect(await here.inside('echo "{}" | jq -c .; cat ~/.local/kept')).toBe('{}\nkept\n')
    expect(await here.up(['--apt', 'jq', '--harness', 'kimi'])).toMatchObject({ how: 'running' })
  })

  it('never had a real credential in it, on its screens or in saved files', async () => {
    await here.up()
    const huntedTexts = { ...screens, ...here.readSaved() }
    expect(await here.scene.hunt(huntedTexts, ['/opt/craik-harnesses'])).toEqual([])
    expect(huntedTexts.claude).toContain(DONE.slice(0, 4))
  })

  /** Types as a user does: the words, and then Enter when the program has read them. */
  async function type(terminal: ReturnType<LoginSandboxScene['terminal']>, words: string): Promise<void> {
    terminal.typeText(words)
    await terminal.says(words.replaceAll(' ', ''), undefined, plainText)
    // A program takes an Enter that follows a key sooner than a hand can press it for part of a paste.
    await sleep(300)
    terminal.typeText('\r')
  }
})

/**
 * Returns the drawn text without spaces, because a program that moves the cursor over spaces has not written them. In
 * the middle of a word, a program may move the cursor, change colors (CSI), or set the window's title (OSC).
 */
function plainText(screen: string): string {
  const control = /\u001b(?:\[[0-9;?>=<]*[ -/]*[A-Za-z]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g
  return screen.replace(control, '').replace(/\s/g, '')
}
