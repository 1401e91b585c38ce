import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SESSION_CHANGES, type SessionStatus } from './agent-session.ts'
import { ADA_OPERATOR, type AgentScene, agentScene } from './agents.fixture.ts'
import { auditSession } from './audit.ts'
import { newRunIds } from './execute.ts'
import { getSession, listRuns } from './read-agent-records.ts'
import type { Run } from './run-record.ts'
import { beginRun, cancelRun, changeSession, recoverRun } from './tokens.ts'

const DEAD = { bootId: 'another-boot', pid: 1, startedAt: '0', pidNamespace: 'none' }
const VERBS = ['rename', 'stop', 'restart', 'recover'] as const

const step = fc.oneof(
  fc.record({ do: fc.constantFrom(...VERBS), who: fc.constantFrom(ADA_OPERATOR, 'operator:bob') }),
  fc.record({ do: fc.constant('prompt' as const), allow: fc.boolean() }),
  fc.constant({ do: 'die' as const }),
  fc.record({
    do: fc.constantFrom('cancel', 'recover_run' as const),
    who: fc.constantFrom(ADA_OPERATOR, 'operator:bob'),
  }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Creates a run of a process that has exited. */
async function die(scene: AgentScene, template: Run): Promise<void> {
  const { runId: id, taskId: task_id, handoffId: handoff_id } = newRunIds(scene.clock)
  await scene.store.write(beginRun, { run: { ...template, id, task_id, handoff_id } })
}

async function take(scene: AgentScene, template: Run, one: Step): Promise<void> {
  switch (one.do) {
    case 'prompt':
      await scene.prompt('s1', 'do it', one.allow)
      return
    case 'die':
      await die(scene, template)
      return
    case 'cancel':
    case 'recover_run': {
      const [newest] = await listRuns(scene.deps, { session_id: 's1' }, 1)
      const request = { runId: newest?.id ?? 'run_none', operator: one.who }
      await scene.store.write(one.do === 'cancel' ? cancelRun : recoverRun, request)
      return
    }
    default:
      await scene.store.write(changeSession, { id: 's1', operator: one.who, action: one.do, name: 'name' })
  }
}

/** Each step is one or two transactions, so at most two changes lie between observations. */
function leadsTo(from: SessionStatus, to: SessionStatus): boolean {
  const next = SESSION_CHANGES[from]
  return from === to || next.includes(to) || next.some((between) => SESSION_CHANGES[between].includes(to))
}

describe('a session under any sequence of actions', () => {
  it('changes only along the allowed transitions, stays sealed, belongs to its operator and passes its audit', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        using scene = await agentScene()
        await scene.launch()
        const { run } = await scene.prompt('s1')
        const template: Run = {
          ...run,
          status: 'running',
          phase: 'plan',
          iteration: 1,
          owner: DEAD,
          ended_at: null,
          stop_reason: null,
          receipt_ids: [],
          commands: [],
          provider_result_count: 0,
          tokens_used: 0,
        }
        for (const one of steps) {
          const before = (await getSession(scene.deps, 's1')).record
          // An action that does not fit the status must be a usage error.
          await take(scene, template, one).catch((error) => {
            expect(['usage', 'not_found']).toContain(error.code)
          })
          const { record: after, status: seal } = await getSession(scene.deps, 's1')
          expect(seal).toBe('verified')
          expect(leadsTo(before.status, after.status), `${before.status} → ${after.status}`).toBe(true)
          expect(after.active_run_id !== null).toBe(after.status === 'running' || after.status === 'stopping')
          if ('who' in one && one.who !== ADA_OPERATOR) expect(after).toEqual(before)
        }
        const audit = await auditSession(scene.deps, 's1')
        expect(audit.checks.flatMap(({ problems }) => problems)).toEqual([])
      }),
      { numRuns: 25 },
    )
  })
})
