import { beforeEach, describe, expect, it } from 'vitest'
import type { InProcessStore } from '../../../test/in-process-store.ts'
import { storeWith } from '../../policy/policy.fixture.ts'
import type { Session } from '../agents/agent-session.ts'
import { launchSession } from '../agents/tokens.ts'
import { DEMO_OPERATOR, removeDemoSession } from './removal.ts'

const AT = '2026-03-01T12:00:00.000Z'
const SESSION: Session = {
  schema: 'craik.agent_session',
  version: '0.1.0',
  id: 'agent_demo_openai_1',
  display_name: 'demo',
  project_id: 'project_parser',
  operator_subject: DEMO_OPERATOR,
  operator_issuer: 'local',
  provider_id: 'provider_openai',
  model_id: null,
  transport: 'fixture',
  policy_envelope_id: 'policy_task-1',
  backend_id: 'sandbox_local_process',
  isolation: 'process',
  workspace: 'parser',
  mode: 'interactive',
  status: 'idle',
  active_task_id: null,
  active_run_id: null,
  created_at: AT,
  updated_at: AT,
  receipt_ids: [],
  receipt_count: 0,
  handoff_ids: [],
  recovery: null,
  redacted: true,
}

describe('removing the records of a demo', () => {
  let store: InProcessStore
  const launch = (changes: Partial<Session> = {}) =>
    store.write(launchSession, { session: { ...SESSION, ...changes } })
  const remove = (sessionId: string) => store.write(removeDemoSession, { sessionId })

  beforeEach(async () => {
    ;({ store } = await storeWith('automation'))
    await launch()
  })

  it('removes the session and its events, and adds a receipt to the others', async () => {
    const before = (await store.bodies()).length
    expect(await remove(SESSION.id)).toMatchObject({ runs: 0, handoffs: 0, events: 1 })
    expect(await store.tables.sessions.get(SESSION.id)).toBeUndefined()
    expect(await store.tables.agentEvents.list({ sessionId: SESSION.id }, 10)).toEqual([])
    const bodies = await store.bodies()
    expect(bodies).toHaveLength(before + 1)
    expect(bodies.at(-1)).toMatchObject({
      capability: 'agent.session',
      operation: 'remove',
      target: SESSION.id,
      status: 'passed',
      metadata: { events: 1 },
    })
  })

  it('removes nothing of another demo', async () => {
    await launch({ id: 'agent_demo_openai_2' })
    await remove(SESSION.id)
    expect(await store.tables.sessions.get('agent_demo_openai_2')).toBeDefined()
    expect(await store.tables.agentEvents.list({ sessionId: 'agent_demo_openai_2' }, 10)).toHaveLength(1)
  })

  it.each([
    ['of another operator', { id: 'agent_demo_x', operator_subject: 'operator:ada' }],
    ['that a person launched under the name of the demo', { id: 'agent_parser_1' }],
  ])('refuses a session %s', async (_, changes) => {
    await launch(changes)
    await expect(remove(changes.id)).rejects.toThrow('is not a demo session')
    expect(await store.tables.sessions.get(changes.id)).toBeDefined()
  })

  it('reports a session that is already removed', async () => {
    await remove(SESSION.id)
    await expect(remove(SESSION.id)).rejects.toThrow('unknown agent session')
  })

  it('cannot remove events while their session exists, or events without a session', async () => {
    await expect(store.tables.agentEvents.removeWith(SESSION.id)).rejects.toThrow('append-only')
    const none = { sessionId: null, runId: 'run_1', type: 'run_completed', atMs: 1, document: '{}' }
    await store.tables.agentEvents.append(none)
    expect(() => store.database.exec("DELETE FROM agent_events WHERE run_id = 'run_1'")).toThrow(
      'append-only',
    )
  })
})
