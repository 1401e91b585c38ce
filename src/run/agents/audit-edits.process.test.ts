import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createGrant, revokeGrant } from '../../policy/grants.ts'
import { ADA_OPERATOR, type AgentScene, agentScene, OLLAMA } from './agents.fixture.ts'
import { auditSession } from './audit.ts'
import { executeRun, newRunIds } from './execute.ts'
import { listRuns } from './read-agent-records.ts'
import { changeSession, type SessionAction } from './tokens.ts'
import { live } from './wire.fixture.ts'

const [PROVIDERS, GRANTS, GONE] = [2, 3, 6]
const FIXTURE = 'provider_fixture_local'

/** Returns the problems of each failed check, by the index of the check. */
async function problemsOf(scene: AgentScene): Promise<Readonly<Record<number, readonly string[]>>> {
  const { checks } = await auditSession(scene.deps, 's1')
  return Object.fromEntries(checks.flatMap(({ passed, problems }, i) => (passed ? [] : [[i, problems]])))
}

const change = (scene: AgentScene, action: SessionAction, name?: string) =>
  scene.store.write(changeSession, { id: 's1', operator: ADA_OPERATOR, action, ...(name && { name }) })

/** Creates grants for the whole session, so that a run needs no approval of its own. */
async function grantSession(scene: AgentScene, uses: number | null, scope?: 'any') {
  const common = {
    subject: ADA_OPERATOR,
    scope: scope ?? { session_id: 's1' },
    max_uses: uses,
    approved_by: ADA_OPERATOR,
  }
  const made = [
    await createGrant(scene.store, {
      ...common,
      capability: 'model.chat',
      operations: ['chat'],
      target: { ref: FIXTURE },
      max_uses: null,
    }),
    await createGrant(scene.store, {
      ...common,
      capability: 'shell.execute',
      operations: ['run'],
      target: { ref: 'fixture-action' },
    }),
  ]
  return made.map(({ grant }) => grant.id) as [string, string]
}

const run = (scene: AgentScene) => executeRun(scene.deps, scene.input({ sessionId: 's1' }))

describe('the audit of a session with an edited database', () => {
  it('finds a grant that exists only as a row', async () => {
    using scene = await agentScene()
    await scene.launch()
    const [, real] = await grantSession(scene, 1)
    const forged = `grant_${'0'.repeat(26)}`
    scene.store.database.exec(`
      INSERT INTO grants SELECT '${forged}', capability, subject, replace(document, '${real}', '${forged}'),
        uses_left, expires_at_ms, revoked_at_ms, created_at_ms FROM grants WHERE id = '${real}';
      DELETE FROM grants WHERE id = '${real}'`)
    expect((await run(scene)).run.status).toBe('completed')
    expect(await problemsOf(scene)).toEqual({ [GRANTS]: [`no receipt of the creation of ${forged}`] })
  })

  it.each([
    ['uses', `json_set(document, '$.max_uses', 1000)`],
    ['target', `json_remove(document, '$.target.ref')`],
  ])('finds a grant whose %s changed after its creation', async (_, edited) => {
    using scene = await agentScene()
    await scene.launch()
    const [, shell] = await grantSession(scene, 1)
    scene.store.database.exec(`UPDATE grants SET document = ${edited} WHERE id = '${shell}'`)
    await run(scene)
    expect(await problemsOf(scene)).toEqual({
      [GRANTS]: [expect.stringMatching(new RegExp(`^${shell} differs from its receipt rcpt_\\w+$`))],
    })
  })

  it('finds a grant that was rewritten together with its receipt', async () => {
    using scene = await agentScene()
    await scene.launch()
    const [, real] = await grantSession(scene, 1, 'any')
    const forged = `grant_${'0'.repeat(26)}`
    scene.store.database.exec(`DROP TRIGGER receipts_never_change;
      UPDATE grants SET id = '${forged}', document = replace(document, '${real}', '${forged}') WHERE id = '${real}';
      UPDATE receipts SET line = replace(line, '${real}', '${forged}')`)
    await run(scene)
    expect(await problemsOf(scene)).toEqual({
      [GRANTS]: [
        expect.stringMatching(new RegExp(`^the receipt that created ${forged}: rcpt_\\w+ was changed$`)),
      ],
    })
  })

  it.each([undefined, 'any' as const])(
    'finds a grant whose uses were reset, with the scope %s',
    async (scope) => {
      using scene = await agentScene()
      await scene.launch()
      const [, shell] = await grantSession(scene, 1, scope)
      await run(scene)
      expect(await problemsOf(scene)).toEqual({})
      scene.store.database.exec(`UPDATE grants SET uses_left = 1 WHERE id = '${shell}'`)
      await run(scene)
      expect(await problemsOf(scene)).toEqual({
        [GRANTS]: [`${shell} was used 2 times, but allows 1`],
      })
    },
  )

  it('names an unreadable grant and continues', async () => {
    using scene = await agentScene()
    await scene.launch()
    const [, shell] = await grantSession(scene, 1)
    await run(scene)
    scene.store.database.exec(`UPDATE grants SET document = '{' WHERE id = '${shell}'`)
    expect((await problemsOf(scene))[GRANTS]).toContain(`cannot read ${shell}`)
  })

  it.each([
    ['the policy', `json_set(document, '$.policy_digest', 'sha256:${'0'.repeat(64)}')`],
    ['the profile', `json_set(document, '$.profile', 'strict')`],
    ['who may act', `json_set(document, '$.allowed_operators', json('["operator:eve"]'))`],
    ['what is denied', `json_set(document, '$.denied_capabilities', json('["model.chat"]'))`],
  ])('finds an envelope in which %s was changed after the decisions', async (_, edited) => {
    using scene = await agentScene()
    await scene.prompt(await scene.launch())
    scene.store.database.exec(`UPDATE envelopes SET document = ${edited}`)
    const problems = await problemsOf(scene)
    expect(Object.keys(problems)).toEqual([String(PROVIDERS)])
    expect(problems[PROVIDERS]![0]).toMatch(
      /^envelope_agent_s1 differs from the envelope that rcpt_\w+ recorded$/,
    )
  })

  it('finds an envelope that was replaced before the first decision, by the receipt of its creation', async () => {
    using scene = await agentScene()
    await scene.launch()
    scene.store.database.exec(`UPDATE envelopes SET document = json_set(document, '$.profile', 'strict')`)
    expect(await problemsOf(scene)).toEqual({
      [PROVIDERS]: [expect.stringMatching(/^envelope_agent_s1 differs from its receipt rcpt_\w+$/)],
    })
  })

  it('finds a missing or unreadable envelope', async () => {
    for (const [sql, problem] of [
      ['DELETE FROM envelopes', 'envelope_agent_s1 is missing'],
      [`UPDATE envelopes SET document = '{'`, 'cannot read envelope_agent_s1'],
    ] as const) {
      using scene = await agentScene()
      await scene.launch()
      scene.store.database.exec(sql)
      expect(await problemsOf(scene)).toEqual({ [PROVIDERS]: [problem] })
    }
  })

  it.each(['rename', 'stop', 'restart'] as const)(
    'finds a session that was reset to its state before a %s',
    async (action) => {
      using scene = await agentScene()
      await scene.prompt(await scene.launch())
      if (action === 'restart') await change(scene, 'stop')
      const { document, seal } = (await scene.store.tables.sessions.get('s1'))!
      await change(scene, action, 'parser')
      expect(await problemsOf(scene)).toEqual({})
      scene.store.database.prepare('UPDATE sessions SET document = ?, seal = ?').run(document, seal)
      expect(await problemsOf(scene)).toEqual({
        [GONE]: [expect.stringMatching(new RegExp(`^the session is older than its ${action} rcpt_\\w+$`))],
      })
    },
  )

  it('finds a stopped session that was edited to look idle', async () => {
    using scene = await agentScene()
    await scene.launch()
    await change(scene, 'stop')
    scene.store.database.exec(`UPDATE sessions SET document = json_set(document, '$.status', 'idle')`)
    expect((await problemsOf(scene))[GONE]).toEqual([
      expect.stringMatching(/^the session is idle after its stop rcpt_\w+$/),
    ])
  })
})

describe('the audit of a session in normal use', () => {
  it('passes after grants are used up, revoked or expired, and after a rename, stop and restart', async () => {
    using scene = await agentScene()
    await scene.prompt(await scene.launch())
    const [chat] = await grantSession(scene, 1)
    expect((await run(scene)).run.status).toBe('completed')
    expect((await run(scene)).run.status).toBe('blocked')
    await revokeGrant(scene.store, chat, ADA_OPERATOR)
    await change(scene, 'rename', 'parser')
    expect(await problemsOf(scene)).toEqual({})
    await change(scene, 'stop')
    expect(await problemsOf(scene)).toEqual({})
    await change(scene, 'restart')
    scene.clock.advance(400 * 24 * 3600_000)
    await grantSession(scene, null, 'any')
    await run(scene)
    await run(scene)
    expect(await problemsOf(scene)).toEqual({})
  })

  it('passes when runs pushed the newest change out of the session’s list', async () => {
    using scene = await agentScene()
    await scene.launch()
    await grantSession(scene, null)
    await change(scene, 'rename', 'parser')
    for (let i = 0; i < 45; i++) await run(scene)
    const { document } = (await scene.store.tables.sessions.get('s1'))!
    const { receipt_ids, receipt_count } = JSON.parse(document)
    expect(receipt_count).toBeGreaterThan(receipt_ids.length)
    expect(await problemsOf(scene)).toEqual({})
  })

  it('passes when the first of many runs in one millisecond is listed as the newest', async () => {
    using scene = await agentScene()
    await scene.launch()
    await grantSession(scene, null)
    const { runId } = newRunIds(scene.clock)
    const last = `${runId.slice(0, -16)}${'Z'.repeat(16)}`
    await executeRun(scene.deps, scene.input({ sessionId: 's1', runId: last }))
    for (let i = 0; i < 45; i++) await run(scene)
    const [listed] = await listRuns(scene.deps, { session_id: 's1' })
    expect(listed?.id).toBe(last)
    expect(await problemsOf(scene)).toEqual({})
  })

  it('passes after a fallback provider answered', async () => {
    using scene = await agentScene()
    const { server } = await live(scene, [{ kind: 'break', text: 'half an ans' }])
    await using _ = server
    const config = join(scene.store.home.root, 'config')
    mkdirSync(config, { recursive: true, mode: 0o700 })
    const rule = { from_provider_id: OLLAMA, to_provider_id: FIXTURE, on: ['broken_stream'] }
    const text = JSON.stringify({ id: 'failover_team', rules: [rule] })
    writeFileSync(join(config, 'failover.json'), text, { mode: 0o600 })
    await grantSession(scene, 1)
    const { handoff } = await scene.prompt('s1')
    expect(handoff).toMatchObject({ answered_by: [FIXTURE] })
    expect(await problemsOf(scene)).toEqual({})
  })
})
