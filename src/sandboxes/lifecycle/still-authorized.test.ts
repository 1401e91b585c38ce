import { describe, expect, test } from 'vitest'
import { createGrant, revokeGrant } from '../../policy/grants.ts'
import { replayLog } from '../../run/replay-log.ts'
import { deniedOperationError } from './denied-operation.ts'
import { ADA_USER, hello, LifecycleStore } from './lifecycle.fixture.ts'
import { recheck, requireJobOwner } from './tokens.ts'

describe('an allowed job', () => {
  async function startJob() {
    const fixture = new LifecycleStore()
    const record = await fixture.sandbox()
    const { id } = record
    const job = hello()
    const begun = await fixture.beginAllowed(id, job)
    const ask = (action: string) =>
      fixture.store.write(requireJobOwner, { id, jobId: job.job!.id, operator: ADA_USER, action })
    return { fixture, record, id, job, begun, ask }
  }

  test('continues under the grant that allowed it, and is denied after that is revoked', async () => {
    const { fixture, record, id, job, begun, ask } = await startJob()
    for (const action of ['output', 'input', 'status']) expect(await ask(action)).toBeUndefined()
    await revokeGrant(fixture.store, record.owner_grants['sandbox.exec']!, ADA_USER)
    for (const action of ['output', 'input', 'acknowledge', 'control', 'status']) {
      const denied = await ask(action)
      expect(denied && deniedOperationError(denied)).toMatchObject({
        code: 'denied',
        hint: expect.stringContaining('craik grant create'),
        details: { grant_outcome: 'revoked', receipt_id: denied?.ref.id },
      })
      expect((await fixture.store.bodies()).at(-1)).toMatchObject({
        kind: 'denial',
        links: { job_id: job.job!.id, grant_id: record.owner_grants['sandbox.exec'] },
        metadata: { action },
      })
    }
    expect(await fixture.begin(id, job)).toMatchObject({ effect: 'denied' })
    const question = { id, begin: begun.begin, action: 'output' }
    expect(await fixture.store.write(recheck, question)).toMatchObject({ effect: 'denied' })
    const replayed = await replayLog(toAsync(await fixture.lines()), async () => {})
    expect(replayed.differ).toEqual([])
  })

  test('is denied when its grant has expired', async () => {
    const { fixture, ask } = await startJob()
    fixture.clock.advance(366 * 24 * 3600 * 1000)
    expect(await ask('output')).toMatchObject({ evaluation: { grantOutcome: 'expired' } })
  })

  test('can still be ended by the operator who started it', async () => {
    const { fixture, record, ask } = await startJob()
    for (const grant of Object.values(record.owner_grants)) await revokeGrant(fixture.store, grant, ADA_USER)
    expect(await ask('cancel')).toBeUndefined()
  })

  test('continues under another grant for the same operation, without spending a use of it', async () => {
    const { fixture, record, id, ask } = await startJob()
    await revokeGrant(fixture.store, record.owner_grants['sandbox.exec']!, ADA_USER)
    const { grant } = await createGrant(fixture.store, {
      capability: 'sandbox.exec',
      subject: ADA_USER,
      scope: 'any',
      operations: ['exec'],
      target: { ref: `sandbox/${id}` },
      max_uses: 1,
      approved_by: ADA_USER,
    })
    expect(await ask('output')).toBeUndefined()
    expect((await fixture.store.tables.grants.get(grant.id))?.usesLeft).toBe(1)
    await revokeGrant(fixture.store, grant.id, ADA_USER)
    expect(await ask('output')).toMatchObject({ effect: 'denied' })
  })

  test('continues under a grant whose uses it has spent', async () => {
    const { fixture, record, id } = await startJob()
    await revokeGrant(fixture.store, record.owner_grants['sandbox.exec']!, ADA_USER)
    const { grant } = await createGrant(fixture.store, {
      capability: 'sandbox.exec',
      subject: ADA_USER,
      scope: 'any',
      operations: ['exec'],
      target: { ref: `sandbox/${id}` },
      max_uses: 1,
      approved_by: ADA_USER,
    })
    const job = hello()
    await fixture.beginAllowed(id, job)
    const question = { id, jobId: job.job!.id, operator: ADA_USER, action: 'output' }
    expect(await fixture.store.write(requireJobOwner, question)).toBeUndefined()
    await revokeGrant(fixture.store, grant.id, ADA_USER)
    expect(await fixture.store.write(requireJobOwner, question)).toMatchObject({ effect: 'denied' })
  })
})

async function* toAsync(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines
}
