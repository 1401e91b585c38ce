import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Begin } from '../../receipts/receipt-log.ts'
import { ADA_OPERATOR, type AgentScene, agentScene } from './agents.fixture.ts'
import { auditSession } from './audit.ts'
import { executeRun } from './execute.ts'

const NAMES = ['seals', 'linked', 'providers', 'grants', 'denials', 'receipts', 'gone'] as const

/** Returns the checks that fail. */
async function failing(scene: AgentScene): Promise<readonly string[]> {
  const { checks, passed } = await auditSession(scene.deps, 's1')
  const failed = NAMES.filter((_, i) => !checks[i]!.passed)
  expect(passed).toBe(failed.length === 0)
  return failed
}

async function sceneWithRun(allow = true) {
  const scene = await agentScene()
  const { run } = await scene.prompt(await scene.launch(), 'do it', allow)
  const links = {
    session_id: 's1',
    run_id: run.id,
    task_id: run.task_id,
    handoff_id: run.handoff_id,
    policy_envelope_id: run.policy_envelope_id,
    provider_id: run.provider_id,
  }
  return { scene, run, links }
}

/** Forges a command that a faulty or hostile caller recorded as run and passed. */
async function forge(scene: AgentScene, changes: Partial<Begin> & Pick<Begin, 'links'>): Promise<void> {
  const open = await scene.store.log.begin({
    kind: 'sandbox_action',
    operator: ADA_OPERATOR,
    capability: 'shell.execute',
    operation: 'run',
    target: 'sandbox_action:fixture-action',
    decision: { effect: 'allow', rule: 'automation.granted', missing: [], replayable: false },
    ...changes,
  })
  await open.end({ status: 'passed' })
}

/** Removes the triggers that protect the events first. */
function deleteEvent(type: string): string {
  return `DROP TRIGGER agent_events_never_leave; DELETE FROM agent_events WHERE type = '${type}'`
}

describe('the audit of a session', () => {
  it('passes after a prompt that passed, and lists what it checked', async () => {
    using scene = (await sceneWithRun()).scene
    const audit = await auditSession(scene.deps, 's1')
    expect(audit).toMatchObject({ passed: true, runs: 1 })
    expect(audit.checks.map(({ looked_at }) => looked_at)).toEqual([
      '3 seals',
      '6 receipts of 1 run',
      '4 provider receipts, 0 failovers',
      '1 passed command',
      '0 denials',
      `${audit.receipts} receipts`,
      '1 run, 1 handoff, 3 events',
    ])
  })

  it.each([
    ['run', 'DELETE FROM runs', /^run_\w+ began, but its record is missing$/],
    ['handoff', 'DELETE FROM handoffs', /^handoff handoff_\w+ of run_\w+ is missing$/],
    ['event of a prompt', deleteEvent('prompt_received'), /^the prompt event of run_\w+ is missing$/],
    ['event of an end', deleteEvent('run_completed'), /^the end event of run_\w+ is missing$/],
    ['event of a launch', deleteEvent('launched'), /^the launch event of rcpt_\w+ is missing$/],
  ])('finds that a %s was removed', async (_, sql, problem) => {
    using scene = (await sceneWithRun()).scene
    scene.store.database.exec(sql)
    expect(await failing(scene)).toContain('gone')
    const { checks } = await auditSession(scene.deps, 's1')
    expect(checks[6]!.problems[0]).toMatch(problem)
  })

  it('finds a session or a run that was reset to an earlier state', async () => {
    for (const [table, problem] of [
      ['sessions', /^handoff_\w+ is not named by the session$/],
      ['runs', /^run_\w+ ended, but its record is older than its end$/],
    ] as const) {
      using scene = await agentScene()
      await scene.launch()
      const before: { id: string; document: string; seal: string }[] = []
      const approve = () => {
        const rows = scene.store.database.prepare(`SELECT id, document, seal FROM ${table}`).all()
        before.push(...(rows as unknown as typeof before))
      }
      if (table === 'sessions') approve()
      const input = scene.input({ sessionId: 's1' })
      await executeRun(scene.deps, { ...input, approve: async () => approve() })
      const { id, document, seal } = before[0]!
      scene.store.database
        .prepare(`UPDATE ${table} SET document = ?, seal = ? WHERE id = ?`)
        .run(document, seal, id)
      expect(await failing(scene)).toContain('gone')
      const { checks } = await auditSession(scene.deps, 's1')
      expect(checks[0]!.passed).toBe(true)
      expect(checks[6]!.problems[0]).toMatch(problem)
    }
  })

  it('finds a run that the log does not name', async () => {
    const { scene, run } = await sceneWithRun()
    using _ = scene
    scene.store.database.exec(`DROP TRIGGER receipts_never_leave;
      DELETE FROM receipts WHERE run_id = '${run.id}' AND kind = 'environment_decision'`)
    const { checks } = await auditSession(scene.deps, 's1')
    expect(checks[6]!.problems).toContain(`${run.id} has no begin receipt`)
  })

  it('names an unreadable run or handoff and continues', async () => {
    for (const table of ['runs', 'handoffs']) {
      using scene = (await sceneWithRun()).scene
      scene.store.database.exec(`UPDATE ${table} SET document = json_set(document, '$.odd', 1)`)
      expect(await failing(scene)).toContain('seals')
    }
  })

  it('passes after a denial, because a denial is not a fault', async () => {
    using scene = (await sceneWithRun(false)).scene
    expect(await failing(scene)).toEqual([])
  })

  it('finds an edited session, run or handoff', async () => {
    for (const table of ['sessions', 'runs', 'handoffs']) {
      using scene = (await sceneWithRun()).scene
      scene.store.database.exec(
        `UPDATE ${table} SET document = replace(document, 'operator:ada', 'operator:eve')`,
      )
      expect(await failing(scene)).toContain('seals')
    }
  })

  it('finds an environment receipt that its run does not list', async () => {
    const { scene, links } = await sceneWithRun()
    using _ = scene
    await scene.store.log.append({
      kind: 'provider_action',
      status: 'failed',
      operator: ADA_OPERATOR,
      capability: 'model.chat',
      links,
    })
    expect(await failing(scene)).toEqual(['linked'])
  })

  it('finds a provider or an envelope that is not the session’s', async () => {
    for (const change of [{ provider_id: 'provider_openai' }, { policy_envelope_id: 'envelope_other' }]) {
      const { scene, links } = await sceneWithRun()
      using _ = scene
      await scene.store.log.append({
        kind: 'provider_action',
        status: 'passed',
        operator: ADA_OPERATOR,
        capability: 'model.chat',
        links: { ...links, ...change },
      })
      expect(await failing(scene)).toContain('providers')
    }
  })

  it('finds a command that passed with a missing grant or a grant for something else', async () => {
    const { scene, links } = await sceneWithRun()
    using _ = scene
    const grant = { grant_outcome: 'usable' as const, command_ref: 'fixture-action' }
    const missing = { ...links, ...grant, grant_id: 'grant_00000000000000000000000000' }
    await forge(scene, { links: missing })
    expect(await failing(scene)).toContain('grants')
    using other = (await sceneWithRun()).scene
    const wrong = await other.grant('unit-tests', 's1')
    await forge(other, { links: { ...links, ...grant, grant_id: wrong } })
    expect(await failing(other)).toContain('grants')
  })

  it('finds a denied request that ran', async () => {
    const { scene, links } = await sceneWithRun(false)
    using _ = scene
    const denial = (await scene.store.bodies()).find(({ kind }) => kind === 'denial')!
    await forge(scene, {
      links: { ...links, command_ref: 'fixture-action', receipt_ids: denial.links.receipt_ids },
    })
    expect(await failing(scene)).toContain('denials')
  })

  it('finds a receipt that was edited in the database', async () => {
    const { scene, run } = await sceneWithRun()
    using _ = scene
    scene.store.database.exec(`DROP TRIGGER receipts_never_change;
      UPDATE receipts SET line = replace(line, '"exit_code"', '"exit_kode"') WHERE run_id = '${run.id}'`)
    expect(await failing(scene)).toEqual(['receipts'])
  })

  it('finds a line that is not a receipt and continues', async () => {
    for (const line of ['not json at all', '{}', 'null', '{"body":{"links":null}}']) {
      const { scene, run } = await sceneWithRun()
      using _ = scene
      scene.store.database.exec(`DROP TRIGGER receipts_never_change;
        UPDATE receipts SET line = '${line}' WHERE run_id = '${run.id}' AND kind = 'budget'`)
      expect(await failing(scene)).toEqual(['receipts'])
    }
  })

  it('finds that the receipt before one of the session’s was replaced', async () => {
    using scene = await agentScene()
    await scene.launch()
    const [first] = await scene.store.tables.receipts.find({ sessionId: 's1' }, 1)
    scene.store.database.exec('DROP TRIGGER receipts_never_change')
    scene.store.database
      .prepare('UPDATE receipts SET leaf = ? WHERE seq = ?')
      .run(Buffer.alloc(32, 7), first!.seq - 1)
    const { checks } = await auditSession(scene.deps, 's1')
    expect(checks[5]!.problems).toEqual([`${first!.id} was changed`])
  })

  it('reports a missing key of a receipt', async () => {
    using scene = (await sceneWithRun()).scene
    rmSync(join(scene.store.home.secrets, 'log.key'))
    const { checks } = await auditSession(scene.deps, 's1')
    expect(checks[5]!.problems[0]).toMatch(/^cannot check rcpt_\w+: its key is missing$/)
  })
})
