import { describe, expect, it } from 'vitest'
import type { Receipt } from '../../receipts/schema.ts'
import { agentScene } from './agents.fixture.ts'
import { buildHandoff } from './handoff.ts'
import type { Run } from './run-record.ts'

async function finishedRun(): Promise<{ run: Run; bodies: readonly Receipt['body'][] }> {
  using scene = await agentScene()
  const { run } = await scene.prompt(await scene.launch())
  const bodies = (await scene.store.bodies()).filter(({ links }) => links.run_id === run.id)
  return { run, bodies }
}

describe('a handoff', () => {
  it('does not take a run’s word for what the receipts do not show', async () => {
    const { run, bodies } = await finishedRun()
    const withoutEnd = bodies.filter(({ kind, phase }) => kind !== 'sandbox_action' || phase !== 'end')
    const handoff = buildHandoff(run, withoutEnd, 0)
    expect(handoff.commands_run).toMatchObject([{ status: 'indeterminate', exit_code: null }])
    expect(handoff.self_audit).toMatchObject({
      every_action_has_a_receipt: false,
      every_receipt_has_ended: false,
      claims_match_receipts: false,
    })
    expect(handoff.risks).toContain('a command began, and how it ended is not known')
  })

  it('sees through a claim that a failed command passed', async () => {
    const { run, bodies } = await finishedRun()
    const failed = bodies.map((body) =>
      body.kind === 'sandbox_action' && body.phase === 'end' ? { ...body, status: 'failed' as const } : body,
    )
    const handoff = buildHandoff(run, failed, 0)
    expect(handoff.commands_run[0]!.status).toBe('failed')
    expect(handoff.self_audit.claims_match_receipts).toBe(false)
  })

  it('sees a command that ran without leave', async () => {
    const { run, bodies } = await finishedRun()
    const ungranted = bodies.map((body) => ({
      ...body,
      links: { ...body.links, grant_outcome: 'missing' as const },
    }))
    expect(buildHandoff(run, ungranted, 0).self_audit.every_command_was_permitted).toBe(false)
  })

  it('lists as tests only what ran as a test', async () => {
    const { run, bodies } = await finishedRun()
    expect(buildHandoff(run, bodies, 0).tests_run).toEqual([])
    const tests = bodies.map((body) =>
      body.kind === 'sandbox_action' ? { ...body, capability: 'shell.test' } : body,
    )
    expect(buildHandoff(run, tests, 0).tests_run).toHaveLength(1)
  })

  it('says when limits were overrun', async () => {
    const { run, bodies } = await finishedRun()
    const over = { ...run, token_budget: 10 }
    expect(buildHandoff(over, bodies, 0).self_audit.stayed_within_limits).toBe(false)
    expect(buildHandoff({ ...over, tokens_used: null }, bodies, 0).self_audit.stayed_within_limits).toBe(
      false,
    )
  })
})
