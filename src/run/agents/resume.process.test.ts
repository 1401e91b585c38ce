/** A new attempt builds on the last one: only its own operator can resume it, and only if nothing was changed. */
import { describe, expect, it } from 'vitest'
import { ADA_OPERATOR, type AgentScene, agentScene, OLLAMA } from './agents.fixture.ts'
import { executeTask, resumeRun } from './prompt-session.ts'
import { call, live, say } from './wire.fixture.ts'

const OPTIONS = { allowFixtureAction: false, maxIterations: 1 }

/** Creates an interrupted run of a task without a session. */
async function interruptRun(scene: AgentScene) {
  const { server } = await live(scene, [call(1), call(1), say('done')])
  const task = { ...OPTIONS, operator: ADA_OPERATOR, workspace: scene.workspace, providerId: OLLAMA }
  const { run } = await executeTask(scene.deps, 'do it', task)
  expect(run).toMatchObject({ status: 'interrupted', session_id: null })
  return { server, run }
}

describe('resuming a run', () => {
  it('is denied for another operator, with a receipt and without a model call', async () => {
    using scene = await agentScene()
    const { server, run } = await interruptRun(scene)
    await using _ = server
    const before = await scene.store.tables.grants.list(100)
    await expect(resumeRun(scene.deps, 'operator:bob', run.id, 'do it', OPTIONS)).rejects.toMatchObject({
      code: 'denied',
      details: { rule: 'run.operator' },
    })
    expect((await scene.store.bodies()).at(-1)).toMatchObject({
      kind: 'denial',
      operator: 'operator:bob',
      operation: 'resume',
      target: run.id,
      links: { run_id: run.id },
    })
    expect(server.requests).toHaveLength(1)
    expect(await scene.store.tables.grants.list(100)).toEqual(before)
  })

  it.each(['runs', 'handoffs'])('is refused when the record in %s was changed', async (table) => {
    using scene = await agentScene()
    const { server, run } = await interruptRun(scene)
    await using _ = server
    scene.store.database.exec(
      `UPDATE ${table} SET document = replace(document, '"${OLLAMA}"', '"provider_local_vllm"')`,
    )
    await expect(resumeRun(scene.deps, ADA_OPERATOR, run.id, 'do it', OPTIONS)).rejects.toMatchObject({
      code: 'tampered',
    })
    expect(server.requests).toHaveLength(1)
  })

  it('is refused when an earlier attempt was changed', async () => {
    using scene = await agentScene()
    const { server, run: first } = await interruptRun(scene)
    await using _ = server
    const { run: second } = await resumeRun(scene.deps, ADA_OPERATOR, first.id, 'do it', OPTIONS)
    scene.store.database.exec(
      `UPDATE runs SET document = replace(document, '"max_iterations":1', '"max_iterations":2')
        WHERE id = '${first.id}'`,
    )
    await expect(resumeRun(scene.deps, ADA_OPERATOR, second.id, 'do it', OPTIONS)).rejects.toMatchObject({
      code: 'tampered',
      message: expect.stringContaining(first.id),
    })
  })
})
