import { describe, expect, it } from 'vitest'
import { ADA_OPERATOR, type AgentScene, agentScene } from './agents.fixture.ts'
import { executeTask, promptSession, resumeRun } from './prompt-session.ts'
import { changeSession } from './tokens.ts'
import { call, live, say } from './wire.fixture.ts'

const grantsIn = async (scene: AgentScene) =>
  (await scene.store.tables.grants.list(100)).map(({ capability, expiresAtMs, document }) => ({
    capability,
    expiresAtMs,
    ...(JSON.parse(document) as { max_uses: number; scope: object; target: object }),
  }))

describe('the grants that an operator gives with a prompt', () => {
  it('are for this run’s calls and one use of one command, for a minute longer than the run’s time limit', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const options = { allowFixtureAction: true, maxIterations: 3, wallMs: 20_000 }
    const { run } = await promptSession(scene.deps, ADA_OPERATOR, id, 'do it', options)
    const common = { scope: { run_id: run.id }, expiresAtMs: scene.clock.nowMs() + 80_000 }
    const grants = await grantsIn(scene)
    expect(grants).toHaveLength(2)
    expect(grants).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ ...common, capability: 'model.chat', max_uses: 3 }),
        expect.objectContaining({
          ...common,
          capability: 'shell.execute',
          max_uses: 1,
          target: { ref: 'fixture-action' },
        }),
      ]),
    )
  })

  it('allow as many calls as a resumed run can make', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call(1)])
    await using _ = server
    const options = { allowFixtureAction: false }
    const first = await promptSession(scene.deps, ADA_OPERATOR, id, 'do it', { ...options, maxIterations: 7 })
    await resumeRun(scene.deps, ADA_OPERATOR, first.run.id, 'do it', options)
    expect((await grantsIn(scene)).map(({ max_uses }) => max_uses)).toEqual([7, 7])
  })
})

describe('a refused prompt', () => {
  it.each([
    ['do it', { maxIterations: 51 }],
    ['do it', { wallMs: 0 }],
    ['do it', { tokenBudget: 1.5 }],
    ['do it', { commandMs: 3_600_001 }],
    ['  ', {}],
  ])(
    'because of its text %j or its limits %j creates no grant, no envelope and no run',
    async (text, limits) => {
      using scene = await agentScene()
      const id = await scene.launch()
      const before = await scene.store.bodies()
      const options = { allowFixtureAction: true, ...limits }
      const task = { ...options, operator: ADA_OPERATOR, workspace: scene.workspace }
      for (const refused of [
        promptSession(scene.deps, ADA_OPERATOR, id, text, options),
        executeTask(scene.deps, text, task),
      ]) {
        await expect(refused).rejects.toMatchObject({ code: 'usage' })
      }
      expect(await scene.store.bodies()).toEqual(before)
      expect(await grantsIn(scene)).toEqual([])
    },
  )

  it('because of the session’s owner or status creates no grant', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const options = { allowFixtureAction: true }
    await expect(promptSession(scene.deps, 'operator:bob', id, 'do it', options)).rejects.toMatchObject({
      code: 'denied',
    })
    await scene.store.write(changeSession, { id, operator: ADA_OPERATOR, action: 'stop' })
    await expect(scene.prompt(id)).rejects.toMatchObject({ code: 'usage' })
    expect(await grantsIn(scene)).toEqual([])
  })

  it('to resume a run of a session that is not ready creates no grant', async () => {
    using scene = await agentScene()
    const { server, id } = await live(scene, [call(1), say('never')])
    await using _ = server
    const options = { allowFixtureAction: true, maxIterations: 1 }
    const { run } = await promptSession(scene.deps, ADA_OPERATOR, id, 'do it', options)
    const before = await grantsIn(scene)
    await scene.store.write(changeSession, { id, operator: ADA_OPERATOR, action: 'stop' })
    await expect(resumeRun(scene.deps, ADA_OPERATOR, run.id, 'do it', options)).rejects.toMatchObject({
      code: 'usage',
    })
    expect(await grantsIn(scene)).toEqual(before)
  })
})
