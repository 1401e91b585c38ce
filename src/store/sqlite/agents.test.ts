import { describe, expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'

const row = (id: string, document: object, createdAtMs = 1) => ({
  id,
  document: JSON.stringify({ id, ...document }),
  seal: 'seal',
  createdAtMs,
})

function open() {
  return inProcessStore({ nowMs: () => 0 })
}

describe('sealed records', () => {
  it('reject a second insert with the same id', async () => {
    const { tables } = open()
    expect(await tables.sessions.insert(row('s1', { status: 'idle' }))).toBe(true)
    expect(await tables.sessions.insert(row('s1', { status: 'failed' }))).toBe(false)
    expect((await tables.sessions.get('s1'))?.document).toContain('idle')
  })

  it('are updated only when they exist', async () => {
    const { tables } = open()
    expect(await tables.runs.update({ id: 'r1', document: '{}', seal: 'x' })).toBe(false)
    await tables.runs.insert(row('r1', { status: 'running' }))
    expect(await tables.runs.update({ id: 'r1', document: '{"status":"failed"}', seal: 'new' })).toBe(true)
    expect(await tables.runs.get('r1')).toMatchObject({ seal: 'new', document: '{"status":"failed"}' })
  })

  it('are listed newest first, and filtered by fields of their documents', async () => {
    const { tables } = open()
    await tables.runs.insert(row('r1', { status: 'running', session_id: 's1' }, 1))
    await tables.runs.insert(row('r2', { status: 'failed', session_id: 's1' }, 2))
    await tables.runs.insert(row('r3', { status: 'running', session_id: null }, 3))
    const ids = async (filter: Parameters<typeof tables.runs.list>[0], limit = 10) =>
      (await tables.runs.list(filter, limit)).map(({ id }) => id)
    expect(await ids({})).toEqual(['r3', 'r2', 'r1'])
    expect(await ids({}, 1)).toEqual(['r3'])
    expect(await ids({ status: 'running' })).toEqual(['r3', 'r1'])
    expect(await ids({ status: 'running', session_id: 's1' })).toEqual(['r1'])
    expect(await ids({ status: "' OR 1 = 1 --" })).toEqual([])
    await tables.runs.update({ id: 'r1', document: '{"status":"completed"}', seal: 'x' })
    expect(await ids({ status: 'completed' })).toEqual(['r1'])
  })
})

describe('agent events', () => {
  it('are listed oldest first, never change, and cannot be removed before their session', async () => {
    const { tables, database } = open()
    await tables.sessions.insert(row('s1', { status: 'idle' }))
    const event = { sessionId: 's1', runId: null, atMs: 1, document: '{}' }
    await tables.agentEvents.append({ ...event, type: 'launched' })
    await tables.agentEvents.append({ ...event, type: 'prompt_received', runId: 'r1' })
    const types = async (of: Parameters<typeof tables.agentEvents.list>[0]) =>
      (await tables.agentEvents.list(of, 10)).map(({ type }) => type)
    expect(await types({ sessionId: 's1' })).toEqual(['launched', 'prompt_received'])
    expect(await types({ runId: 'r1' })).toEqual(['prompt_received'])
    expect(() => database.exec("UPDATE agent_events SET type = 'x'")).toThrow('append-only')
    expect(() => database.exec('DELETE FROM agent_events')).toThrow('append-only')
  })
})

describe('logins', () => {
  it('are active one at a time, whatever a caller writes', async () => {
    const { tables } = open()
    const login = { subject: 'operator:ada', issuer: 'local', sinceMs: 1, endedAtMs: null }
    await tables.logins.insert({ ...login, id: 'login_1' })
    await expect(tables.logins.insert({ ...login, id: 'login_2' })).rejects.toThrow('UNIQUE')
    expect(await tables.logins.end('login_1', 2)).toBe(true)
    expect(await tables.logins.end('login_1', 3)).toBe(false)
    expect(await tables.logins.active()).toBeUndefined()
  })
})
