/** The real agents, from npm, all five in one container without a network, with logins that stay on the host. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import { HARNESSES_MS, readyHarnessImage } from '../harness-image.ts'
import { stopsOnCancel } from '../harnesses/agent-cancel.ts'
import { checkProviderErrors, isRefused, worksAndGoesOn, worksForEditor } from '../harnesses/agent-life.ts'
import { checkEndedLogin, isRenewed, type LoginName } from '../harnesses/agent-login.ts'
import { FaultyAnswers } from '../harnesses/agent-providers.ts'
import { areExportedOnce } from '../harnesses/agent-transcripts.ts'
import { AGENTS, type AgentName, logInFor, openPrompts, prompt } from '../harnesses/prompt-scene.ts'
import type { LiveSandbox } from '../sandbox-home.ts'

const NAMES = Object.keys(AGENTS) as AgentName[]

describe.skipIf(ENGINE_IS_NEEDED)(`agents in a container ${ENGINE_IS_NEEDED ?? ''}`, () => {
  const answers = new FaultyAnswers()
  let scene: LoginScene
  let box: LiveSandbox
  const reals: Partial<Record<AgentName, string>> = {}
  const outputs: Record<string, string> = {}

  beforeAll(async () => {
    await readyHarnessImage(NAMES)
    scene = await openPrompts({ identity: 'root', backend: 'docker' }, answers.answer)
    for (const name of NAMES) reals[name] = await logInFor(scene, name)
    box = await scene.create(['--harness', NAMES.join(','), '--memory', '4g', '--pids', '512'])
  }, HARNESSES_MS)
  afterAll(() => scene?.[Symbol.asyncDispose]())

  it('all of them do their tasks at the same time', async () => {
    const proof = (name: AgentName) => `together-${name}.txt`
    const all = await Promise.all(
      NAMES.map((name) =>
        prompt(scene, `RUN: echo ${name} > ${proof(name)}`, ['--harness', name, '--sandbox', box.id]),
      ),
    )
    outputs['all at once'] = JSON.stringify(all)
    expect(all, outputs['all at once']).toMatchObject(NAMES.map(() => ({ code: 0, sandboxId: box.id })))
    const { stdout } = await box.exec(['cat', ...NAMES.map(proof)])
    expect(stdout).toBe(NAMES.map((name) => `${name}\n`).join(''))
  })

  describe.each(NAMES)('%s', (name) => {
    it('does its task, and continues the session later', async () => {
      outputs[`${name} at work`] = JSON.stringify(await worksAndGoesOn(scene, name, box.id, reals[name]!))
    })

    it('does it for an editor, with `craik acp`, and continues with another editor', async () => {
      outputs[`${name} in an editor`] = JSON.stringify(await worksForEditor(scene, name, box.id))
    })

    it('does nothing without permission', async () => {
      outputs[`${name} refused`] = JSON.stringify(await isRefused(scene, name, box.id))
    })

    it('stops when it is interrupted, with all its processes, and continues on request', async () => {
      outputs[`${name} interrupted`] = JSON.stringify(await stopsOnCancel(scene, name, box))
    })

    // OpenCode uses API keys, which do not expire.
    if (name !== 'opencode') logins(name)

    // This test is the last, because a provider over its limit gets a cooldown.
    it('reports when its provider refuses the login, or is over its limit', async () => {
      outputs[`${name} failing`] = JSON.stringify(await checkProviderErrors(scene, answers, name, box.id))
    })
  })

  function logins(name: LoginName): void {
    it('gets its expired login refreshed on the host', async () => {
      outputs[`${name} renewed`] = JSON.stringify(await isRenewed(scene, name, box.id))
    })

    it('reports when its login can no longer be refreshed, and works after the next login', async () => {
      outputs[`${name} ended`] = JSON.stringify(await checkEndedLogin(scene, name, box.id))
    })
  }

  it('each conversation of every agent is exported once, also if it was resumed', async () => {
    outputs.transcripts = await areExportedOnce(scene, NAMES, box.id)
  })

  it('no agent ever got a real credential', async () => {
    expect(await scene.hunt(outputs, ['/opt/craik-harnesses'])).toEqual([])
  })
})
