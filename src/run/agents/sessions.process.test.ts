import { describe, expect, it } from 'vitest'
import { ADA_OPERATOR, agentScene } from './agents.fixture.ts'
import { executeRun } from './execute.ts'
import { getRun, getSession, listEvents } from './read-agent-records.ts'
import { beginRun, cancelRun, changeSession, recoverRun, type SessionAction } from './tokens.ts'

const DEAD = { bootId: 'another-boot', pid: 1, startedAt: '0', pidNamespace: 'none' }

describe('a session', () => {
  it('is launched idle and sealed, with a receipt in the same transaction and no capability', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const { record, status } = await getSession(scene.deps, id)
    expect(record).toMatchObject({
      status: 'idle',
      operator_subject: ADA_OPERATOR,
      policy_envelope_id: 'envelope_agent_s1',
    })
    expect(status).toBe('verified')
    const receipt = (await scene.store.bodies()).find((body) => body.id === record.receipt_ids[0])
    expect(receipt).toMatchObject({
      kind: 'environment_decision',
      capability: 'agent.session',
      operation: 'launch',
    })
    expect(await scene.store.tables.grants.list(10)).toEqual([])
  })

  it('has a unique id: a duplicate is refused with exit code 2 and changes nothing', async () => {
    using scene = await agentScene()
    await scene.launch()
    const before = (await scene.store.bodies()).length
    await expect(scene.launch()).rejects.toMatchObject({ code: 'usage', exitCode: 2 })
    expect(await scene.store.bodies()).toHaveLength(before)
  })

  it('gets an id from the project, the provider and the time, and a different one if that is taken', async () => {
    using scene = await agentScene()
    const { launchAgent } = await import('./launch-agent.ts')
    const input = { operator: ADA_OPERATOR, issuer: 'local', workspace: scene.workspace }
    const first = await launchAgent(scene.deps, input)
    const second = await launchAgent(scene.deps, input)
    expect(first.session.id).toBe('agent_work_fixture_local_20260301120000')
    expect(second.session.id).toMatch(/^agent_work_fixture_local_20260301120000_[0-9a-f]{6}$/)
  })

  it('writes a receipt when it is renamed, stopped or restarted, and refuses a restart while active', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const change = (action: SessionAction, name?: string) =>
      scene.store.write(changeSession, { id, operator: ADA_OPERATOR, action, ...(name && { name }) })
    await expect(change('restart')).rejects.toMatchObject({ code: 'usage', exitCode: 2 })
    expect(await change('rename', 'parser')).toMatchObject({
      session: { display_name: 'parser', status: 'idle' },
    })
    expect(await change('stop')).toMatchObject({ session: { status: 'stopped' } })
    await expect(scene.prompt(id)).rejects.toMatchObject({ code: 'usage' })
    await expect(change('stop')).rejects.toMatchObject({ code: 'usage' })
    expect(await change('restart')).toMatchObject({ session: { status: 'idle' } })
    await expect(change('recover')).rejects.toMatchObject({ code: 'usage' })
    const operations = (await scene.store.bodies())
      .filter(({ capability }) => capability === 'agent.session')
      .map(({ operation }) => operation)
    expect(operations).toEqual(['launch', 'rename', 'stop', 'restart'])
    const { record } = await getSession(scene.deps, id)
    expect(record.receipt_count).toBe(4)
    const events = await listEvents(scene.deps, { sessionId: id })
    expect(events.map(({ type }) => type)).toEqual([
      'launched',
      'renamed',
      'stop_requested',
      'exited',
      'restarted',
    ])
  })

  it('refuses every action of another operator, with a denial receipt and without a change', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    const before = await getSession(scene.deps, id)
    for (const action of ['rename', 'stop', 'restart', 'recover'] as const) {
      const refused = await scene.store.write(changeSession, { id, operator: 'operator:bob', action })
      expect(refused).toMatchObject({ outcome: 'refused', rule: 'session.operator' })
    }
    const input = scene.input({ operator: 'operator:bob', sessionId: id })
    await expect(executeRun(scene.deps, input)).rejects.toMatchObject({ code: 'denied' })
    const denials = (await scene.store.bodies()).filter(({ kind }) => kind === 'denial')
    expect(denials.map(({ operation }) => operation)).toEqual([
      'rename',
      'stop',
      'restart',
      'recover',
      'prompt',
    ])
    expect(await getSession(scene.deps, id)).toEqual(before)
  })

  it('is reported as tampered after an edit in the database, refuses prompts and is not sealed again', async () => {
    using scene = await agentScene()
    const id = await scene.launch()
    scene.store.database.exec(
      `UPDATE sessions SET document = replace(document, '"status":"idle"', '"status":"failed"')`,
    )
    expect(await getSession(scene.deps, id)).toMatchObject({ status: 'tampered' })
    await expect(scene.prompt(id)).rejects.toMatchObject({ code: 'tampered' })
    const changed = await scene.store.write(changeSession, { id, operator: ADA_OPERATOR, action: 'restart' })
    expect(changed).toMatchObject({ outcome: 'refused', rule: 'session.seal' })
    expect(await getSession(scene.deps, id)).toMatchObject({ status: 'tampered' })
    expect(await scene.store.tables.grants.list(10)).toEqual([])
  })

  it('cannot be replaced by a copy of another, because a seal fits one session only', async () => {
    using scene = await agentScene()
    await scene.launch({ id: 's1' })
    await scene.launch({ id: 's2' })
    scene.store.database.exec(`UPDATE sessions SET document = (SELECT document FROM sessions WHERE id = 's2'),
      seal = (SELECT seal FROM sessions WHERE id = 's2') WHERE id = 's1'`)
    expect(await getSession(scene.deps, 's1')).toMatchObject({ status: 'tampered' })
  })
})

describe('a run whose process has died', () => {
  async function deadRun(scene: Awaited<ReturnType<typeof agentScene>>) {
    const id = await scene.launch()
    const { run } = await scene.prompt(id)
    // The same run, as if its process had been killed right after its begin.
    const again = {
      ...run,
      id: 'run_dead',
      handoff_id: 'handoff_dead',
      status: 'running' as const,
      phase: 'plan' as const,
      owner: DEAD,
      receipt_ids: [],
      commands: [],
      ended_at: null,
      stop_reason: null,
      iteration: 1,
    }
    await scene.store.write(beginRun, { run: again })
    return id
  }

  it('is recovered with its session to interrupted and idle, with an incomplete handoff', async () => {
    using scene = await agentScene()
    const id = await deadRun(scene)
    await expect(scene.prompt(id)).rejects.toMatchObject({ code: 'usage' })
    const result = await scene.store.write(changeSession, {
      id,
      operator: ADA_OPERATOR,
      action: 'recover',
      reason: 'crash',
    })
    expect(result).toMatchObject({
      session: {
        status: 'idle',
        active_run_id: null,
        recovery: { from_status: 'running', run_id: 'run_dead' },
      },
      ended: { run: { status: 'interrupted', stop_reason: 'owner_died' }, handoff: { status: 'incomplete' } },
    })
    expect((await scene.prompt(id)).run.status).toBe('completed')
  })

  it('can be stopped with its session, or cancelled by itself', async () => {
    using scene = await agentScene()
    const id = await deadRun(scene)
    const result = await scene.store.write(changeSession, { id, operator: ADA_OPERATOR, action: 'stop' })
    expect(result).toMatchObject({
      session: { status: 'stopped' },
      ended: { run: { status: 'interrupted' } },
    })
    using other = await agentScene()
    await deadRun(other)
    const cancelled = await other.store.write(cancelRun, { runId: 'run_dead', operator: ADA_OPERATOR })
    expect(cancelled).toMatchObject({ outcome: 'ended', run: { status: 'interrupted' } })
    await expect(
      other.store.write(recoverRun, { runId: 'run_dead', operator: ADA_OPERATOR }),
    ).rejects.toMatchObject({
      code: 'usage',
    })
  })

  it('cannot be recovered by another operator, nor while it is alive', async () => {
    using scene = await agentScene()
    await deadRun(scene)
    const foreign = await scene.store.write(recoverRun, { runId: 'run_dead', operator: 'operator:bob' })
    expect(foreign).toMatchObject({ outcome: 'refused', rule: 'run.operator' })
    using other = await agentScene()
    const id = await other.launch()
    const { run } = await other.prompt(id)
    const living = {
      ...run,
      id: 'run_alive',
      handoff_id: 'handoff_alive',
      status: 'running' as const,
      phase: 'plan' as const,
    }
    await other.store.write(beginRun, { run: living })
    await expect(
      other.store.write(recoverRun, { runId: 'run_alive', operator: ADA_OPERATOR }),
    ).rejects.toMatchObject({
      code: 'usage',
    })
    await expect(
      other.store.write(changeSession, { id, operator: ADA_OPERATOR, action: 'recover' }),
    ).rejects.toMatchObject({ code: 'usage' })
    expect((await getRun(other.deps, 'run_alive')).record.status).toBe('running')
  })
})
