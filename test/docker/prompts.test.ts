/** The real agents, from npm, all five in one container without a network, with logins that stay outside. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import { HARNESSES_MS, readyHarnessImage } from '../harness-image.ts'
import { stopsOnCancel } from '../harnesses/agent-cancel.ts'
import { hasReported, isRefused, worksAndGoesOn, worksForEditor } from '../harnesses/agent-life.ts'
import { hasReportedEnd, isRenewed, type LoginName } from '../harnesses/agent-login.ts'
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
  const reply: Record<string, string> = {}

  beforeAll(async () => {
    await readyHarnessImage(NAMES)
    scene = await openPrompts({ identity: 'root', backend: 'docker' }, answers.answer)
    for (const name of NAMES) reals[name] = await logInFor(scene, name)
    box = await scene.create(['--harness', NAMES.join(','), '--memory', '4g', '--pids', '512'])
  }, HARNESSES_MS)
  afterAll(() => scene?.[Symbol.asyncDispose]())

  it('all of them do at the same time what each is asked', async () => {
    const proof = (name: AgentName) => `together-${name}.txt`
    const all = await Promise.all(
      NAMES.map((name) =>
        prompt(scene, `RUN: echo ${name} > ${proof(name)}`, ['--harness', name, '--sandbox', box.id]),
      ),
    )
    reply['all at once'] = JSON.stringify(all)
    expect(all, reply['all at once']).toMatchObject(NAMES.map(() => ({ code: 0, sandboxId: box.id })))
    const { stdout } = await box.exec(['cat', ...NAMES.map(proof)])
    expect(stdout).toBe(NAMES.map((name) => `${name}\n`).join(''))
  })

  describe.each(NAMES)('%s', (name) => {
    it('does what it is asked, and goes on where it ended', async () => {
      reply[`${name} at work`] = JSON.stringify(await worksAndGoesOn(scene, name, box.id, reals[name]!))
    })

    it('does it for an editor, by `craik acp`, and goes on with another', async () => {
      reply[`${name} in an editor`] = JSON.stringify(await worksForEditor(scene, name, box.id))
    })

    it('does nothing that it was not given leave for', async () => {
      reply[`${name} refused`] = JSON.stringify(await isRefused(scene, name, box.id))
    })

    it('stops when it is interrupted, with whatever it runs, and goes on when it is asked to', async () => {
      reply[`${name} interrupted`] = JSON.stringify(await stopsOnCancel(scene, name, box))
    })

    // OpenCode works with keys, which do not run out.
    if (name !== 'opencode') logins(name)

    // The last one: a provider that had enough is given a rest.
    it('tells when its provider refuses the login, or has enough', async () => {
      reply[`${name} failing`] = JSON.stringify(await hasReported(scene, answers, name, box.id))
    })
  })

  function logins(name: LoginName): void {
    it('has its login renewed outside when that has run out', async () => {
      reply[`${name} renewed`] = JSON.stringify(await isRenewed(scene, name, box.id))
    })

    it('tells when its login is not renewed any more, and works after the next one', async () => {
      reply[`${name} ended`] = JSON.stringify(await hasReportedEnd(scene, name, box.id))
    })
  }

  it('each conversation of all of them is exported once, also when it was taken up again', async () => {
    reply.transcripts = await areExportedOnce(scene, NAMES, box.id)
  })

  it('nothing of any login was seen by any of them', async () => {
    expect(await scene.hunt(reply, ['/opt/craik-harnesses'])).toEqual([])
  })
})
