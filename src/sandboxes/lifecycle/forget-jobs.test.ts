import { expect, test } from 'vitest'
import type { JobId, ReceiptId } from '../../lib/ids.ts'
import { BOB, hello, LifecycleStore, ME } from './lifecycle.fixture.ts'
import { endOperation, forgetJobs } from './tokens.ts'

const KEPT = 4096

test('the newest ended jobs are kept, and the id of an older one begins nothing', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  const [first, second] = [jobIdOf(1), jobIdOf(2)]
  for (const jobId of [first, second]) {
    const begun = await fixture.beginAllowed(id, hello(jobId))
    await store.write(endOperation, { id, begun, jobId, status: 'passed' })
  }
  await store.write(forgetJobs, { id })
  expect(await fixture.begin(id, hello(first))).toMatchObject({ known: { state: 'ended' } })

  // One job less than the limit, so that only the first of the two above is too many.
  for (let i = 0; i < KEPT - 1; i++) {
    await store.tables.sandboxJobs.insert({
      sandboxId: id,
      jobId: jobIdOf(100 + i),
      beginId: `rcpt_${i}` as ReceiptId,
      document: '{}',
      seal: '',
      state: 'ended',
      owner: ME,
      adopted: false,
      createdAtMs: 0,
    })
  }
  const stillOpen = jobIdOf(0)
  await fixture.beginAllowed(id, hello(stillOpen))
  await store.write(forgetJobs, { id })
  const count = (await store.bodies()).length
  await expect(fixture.begin(id, hello(first))).rejects.toMatchObject({ code: 'conflict' })
  expect((await store.bodies()).length).toBe(count)
  expect(await fixture.begin(id, hello(second))).toMatchObject({ known: { state: 'ended' } })
  expect(await fixture.begin(id, hello(stillOpen))).toMatchObject({ known: { state: 'open' } })
  expect(await fixture.begin(id, hello())).toMatchObject({ effect: 'allowed' })
  // An operator who may not run anything does not learn what ran.
  expect(await fixture.begin(id, { ...hello(first), operator: BOB })).toMatchObject({ effect: 'denied' })
})

/** Returns ids that sort by their number. */
function jobIdOf(number: number): JobId {
  return `job_${String(number).padStart(26, '0')}` as JobId
}
