/**
 * Runs whose process exited, is invisible here, or whose record was changed: each can be ended with a truthful state.
 */
import { describe, expect, it } from 'vitest'
import { currentOwner, type Owner } from '../../lib/owner.ts'
import { ADA_OPERATOR, type AgentScene, agentScene } from './agents.fixture.ts'
import { getHandoff, getRun, getSession } from './read-agent-records.ts'
import type { Run } from './run-record.ts'
import { beginRun, cancelRun, changeSession, recoverRun, type SessionAction } from './tokens.ts'

const DEAD: Owner = { bootId: 'another-boot', pid: 1, startedAt: '0', pidNamespace: 'none' }
/** An owner on this boot in another pid namespace, so that nobody here can see whether it lives. */
const HIDDEN: Owner = { ...currentOwner(), pidNamespace: 'pid:[1]' }
const MINUTE_MS = 60_000

/** Creates a session whose run `run_left` belongs to another process. */
async function createRunOf(owner: Owner): Promise<{ scene: AgentScene; run: Run }> {
  const scene = await agentScene()
  const { run } = await scene.prompt(await scene.launch())
  const left: Run = {
    ...run,
    id: 'run_left',
    handoff_id: 'handoff_left',
    status: 'running',
    phase: 'plan',
    owner,
    iteration: 1,
    receipt_ids: [],
    commands: [],
    ended_at: null,
    stop_reason: null,
    provider_result_count: 0,
    created_at: new Date(scene.clock.nowMs()).toISOString(),
  }
  await scene.store.write(beginRun, { run: left })
  return { scene, run: left }
}

const change = (scene: AgentScene, action: SessionAction) =>
  scene.store.write(changeSession, { id: 's1', operator: ADA_OPERATOR, action })
const request = { runId: 'run_left', operator: ADA_OPERATOR }

describe('a run whose process is not visible here', () => {
  it('is not recovered while it may be running, and the error gives the deadline', async () => {
    const { scene, run } = await createRunOf(HIDDEN)
    using _ = scene
    scene.clock.advance(run.wall_budget_ms + 14 * MINUTE_MS)
    const until = new Date(Date.parse(run.created_at) + run.wall_budget_ms + 15 * MINUTE_MS).toISOString()
    const message = expect.stringContaining(`after ${until} Craik treats it as dead`)
    await expect(scene.store.write(recoverRun, request)).rejects.toMatchObject({ code: 'usage', message })
    await expect(change(scene, 'recover')).rejects.toMatchObject({ code: 'usage', message })
    expect(await scene.store.write(cancelRun, request)).toMatchObject({ outcome: 'requested' })
    expect((await getRun(scene.deps, 'run_left')).record.status).toBe('running')
  })

  it('counts as dead after its time and a margin: recover, cancel and stop each end it', async () => {
    for (const end of [
      (scene: AgentScene) => change(scene, 'recover'),
      (scene: AgentScene) => change(scene, 'stop'),
      (scene: AgentScene) => scene.store.write(recoverRun, request),
      (scene: AgentScene) => scene.store.write(cancelRun, request),
    ]) {
      const { scene, run } = await createRunOf(HIDDEN)
      using _ = scene
      scene.clock.advance(run.wall_budget_ms + 15 * MINUTE_MS + 1)
      await end(scene)
      expect((await getRun(scene.deps, 'run_left')).record).toMatchObject({ status: 'interrupted' })
      expect((await getSession(scene.deps, 's1')).record.active_run_id).toBeNull()
    }
  })

  it('has its open receipts ended as indeterminate, and the handoff says so', async () => {
    const { scene, run } = await createRunOf(HIDDEN)
    using _ = scene
    // A living process began it, so only the run's own deadline can decide.
    await scene.store.log.begin({
      kind: 'sandbox_action',
      operator: ADA_OPERATOR,
      capability: 'shell.execute',
      operation: 'run',
      target: 'sandbox_action:fixture-action',
      links: { session_id: 's1', run_id: run.id, command_ref: 'fixture-action', grant_outcome: 'usable' },
    })
    scene.clock.advance(run.wall_budget_ms + 16 * MINUTE_MS)
    await scene.store.write(recoverRun, request)
    const { record: handoff } = await getHandoff(scene.deps, 'handoff_left')
    expect(handoff).toMatchObject({
      commands_run: [{ command_ref: 'fixture-action', status: 'indeterminate' }],
      self_audit: { every_receipt_has_ended: true },
    })
    expect(await scene.store.tables.openReceipts.list()).toEqual([])
  })
})

describe('a session that was stopping when its process died', () => {
  it('is recovered to stopped, where it accepts no prompt', async () => {
    const { scene, run } = await createRunOf(HIDDEN)
    using _ = scene
    expect(await change(scene, 'stop')).toMatchObject({ session: { status: 'stopping' } })
    scene.clock.advance(run.wall_budget_ms + 16 * MINUTE_MS)
    expect(await change(scene, 'recover')).toMatchObject({
      session: { status: 'stopped', active_run_id: null, recovery: { from_status: 'stopping' } },
      ended: { run: { status: 'interrupted' } },
    })
  })
})

describe('a session whose run was changed outside Craik', () => {
  const damages = {
    changed: `UPDATE runs SET document = replace(document, '"plan"', '"act"') WHERE id = 'run_left'`,
    unreadable: `UPDATE runs SET document = '{}' WHERE id = 'run_left'`,
    removed: `DELETE FROM runs WHERE id = 'run_left'`,
  }

  it.each([
    ['changed', 'recover', 'idle'],
    ['changed', 'stop', 'stopped'],
    ['unreadable', 'recover', 'idle'],
    ['unreadable', 'stop', 'stopped'],
    ['removed', 'recover', 'idle'],
    ['removed', 'stop', 'stopped'],
  ] as const)('(%s) drops the run by %s and leaves its record unchanged', async (damage, action, status) => {
    const { scene } = await createRunOf(DEAD)
    using _ = scene
    scene.store.database.exec(damages[damage])
    const before = await scene.store.tables.runs.get('run_left')
    expect(await change(scene, action)).toMatchObject({
      session: { status, active_run_id: null },
      leftRunId: 'run_left',
    })
    expect(await scene.store.tables.runs.get('run_left')).toEqual(before)
    const receipt = (await scene.store.bodies()).at(-1)
    expect(receipt).toMatchObject({ operation: action, metadata: { left_run_id: 'run_left' } })
    if (status === 'idle') expect((await scene.prompt('s1')).run.status).toBe('completed')
  })
})
