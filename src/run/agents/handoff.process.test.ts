import { describe, expect, it } from 'vitest'
import type { Receipt } from '../../receipts/schema.ts'
import { agentScene } from './agents.fixture.ts'
import { buildHandoff } from './handoff.ts'
import type { Run } from './run-record.ts'

async function finishRun(): Promise<{ run: Run; bodies: readonly Receipt['body'][] }> {
  using scene = await agentScene()
  const { run } = await scene.prompt(await scene.launch())
  const bodies = (await scene.store.bodies()).filter(({ links }) => links.run_id === run.id)
  return { run, bodies }
}

describe('a handoff', () => {
  it('does not report what the receipts do not confirm', async () => {
    const { run, bodies } = await finishRun()
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

  it('lists the requested and actual isolation, and after a kill that a command may still run', async () => {
    const { run, bodies } = await finishRun()
    expect(buildHandoff(run, bodies, 0).commands_run).toMatchObject([
      { isolation_asked: 'process', isolation: 'process' },
    ])
    const withKilledCommand = (requested: string) =>
      bodies.flatMap((body) => {
        if (body.kind !== 'sandbox_action') return [body]
        const { isolation: _, ...rest } = body
        return body.phase === 'begin'
          ? [{ ...body, isolation: requested }]
          : [{ ...rest, status: 'indeterminate' as const }]
      })
    const stillRuns =
      'a command was started without isolation and may still run: Craik cannot end it any more'
    const inside = buildHandoff(run, withKilledCommand('process'), 0)
    expect(inside.commands_run).toMatchObject([{ isolation_asked: 'process', isolation: null }])
    expect(inside.risks).not.toContain(stillRuns)
    const outside = buildHandoff(run, withKilledCommand('none'), 0)
    expect(outside.commands_run).toMatchObject([{ isolation_asked: 'none', isolation: null }])
    expect(outside.risks).toContain(stillRuns)
  })

  it('detects a false claim that a failed command passed', async () => {
    const { run, bodies } = await finishRun()
    const failed = bodies.map((body) =>
      body.kind === 'sandbox_action' && body.phase === 'end' ? { ...body, status: 'failed' as const } : body,
    )
    const handoff = buildHandoff(run, failed, 0)
    expect(handoff.commands_run[0]!.status).toBe('failed')
    expect(handoff.self_audit.claims_match_receipts).toBe(false)
  })

  it('detects a command that ran without permission', async () => {
    const { run, bodies } = await finishRun()
    const ungranted = bodies.map((body) => ({
      ...body,
      links: { ...body.links, grant_outcome: 'missing' as const },
    }))
    expect(buildHandoff(run, ungranted, 0).self_audit.every_command_was_permitted).toBe(false)
  })

  it('lists only tests as tests', async () => {
    const { run, bodies } = await finishRun()
    expect(buildHandoff(run, bodies, 0).tests_run).toEqual([])
    const tests = bodies.map((body) =>
      body.kind === 'sandbox_action' ? { ...body, capability: 'shell.test' } : body,
    )
    expect(buildHandoff(run, tests, 0).tests_run).toHaveLength(1)
  })

  it('reports exceeded limits', async () => {
    const { run, bodies } = await finishRun()
    const over = { ...run, token_budget: 10 }
    expect(buildHandoff(over, bodies, 0).self_audit.stayed_within_limits).toBe(false)
    expect(buildHandoff({ ...over, tokens_used: null }, bodies, 0).self_audit.stayed_within_limits).toBe(
      false,
    )
  })

  it('detects a denied request that began, but not one that began before the denial', async () => {
    const { run, bodies } = await finishRun()
    const at = bodies.findIndex(({ kind, phase }) => kind === 'sandbox_action' && phase === 'begin')
    const begin = bodies[at]!
    const denial = { ...begin, id: 'rcpt_denied' as typeof begin.id, kind: 'denial', phase: 'point' } as const
    const hasNoDeniedAction = (all: typeof bodies) =>
      buildHandoff(run, all, 0).self_audit.no_denied_action_ran
    expect(hasNoDeniedAction(bodies.toSpliced(at, 0, denial))).toBe(false)
    expect(hasNoDeniedAction(bodies.toSpliced(at + 1, 0, denial))).toBe(true)
    const another = { ...denial, links: { ...denial.links, command_ref: 'unit-tests' } }
    expect(hasNoDeniedAction(bodies.toSpliced(at, 0, another))).toBe(true)
  })

  it('does not list denied actions of others on the run itself', async () => {
    const { run, bodies } = await finishRun()
    const refused = {
      ...bodies[0]!,
      kind: 'denial',
      status: 'denied',
      phase: 'point',
      capability: 'agent.run',
    } as const
    expect(buildHandoff(run, [...bodies, refused], 0).denied_actions).toEqual([])
  })
})
