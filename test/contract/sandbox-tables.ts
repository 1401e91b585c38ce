/** The contract of every store for sandboxes: their records, their jobs and the counts of their boundaries. */
import { beforeEach, describe, expect, it } from 'vitest'
import type { JobId, ReceiptId, SandboxId } from '../../src/lib/ids.ts'
import type { SandboxJobRow } from '../../src/store/sandbox-tables.ts'
import type { Tables } from '../../src/store/store.ts'
import type { StoreUnderTest } from './store.ts'

const BOX = 'sbx_a' as SandboxId
const OTHER = 'sbx_b' as SandboxId
const OWNER = { bootId: 'boot', pid: 7, startedAt: '99', pidNamespace: 'pid:[1]' }

export function sandboxContract(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${name} as a store of sandboxes`, () => {
    let store: StoreUnderTest
    beforeEach(async () => {
      store = await open()
    })
    const inside = <T>(work: (tables: Tables) => Promise<T>) => store.transaction(work)

    describe('records', () => {
      it('finds a sandbox by the fields of its document', async () => {
        await inside(async ({ sandboxes }) => {
          await sandboxes.insert(sandbox(BOX, { name: 'one', state: 'running', operator: 'ada' }))
          await sandboxes.insert(sandbox(OTHER, { name: 'two', state: 'lost', operator: 'ada' }))
        })
        const ids = (filter: Parameters<Tables['sandboxes']['list']>[0]) =>
          inside(async ({ sandboxes }) => (await sandboxes.list(filter, 10)).map(({ id }) => id))
        expect(await ids({ name: 'one' })).toEqual([BOX])
        expect(await ids({ operator: 'ada', state: 'lost' })).toEqual([OTHER])
        expect(await ids({})).toHaveLength(2)
        expect(await inside(({ sandboxes }) => sandboxes.get('one'))).toBeUndefined()
      })

      it('allows a name, and an allocated user, for only one sandbox at a time', async () => {
        const first = sandbox(BOX, { name: 'one', allocated_uid: 2_000_000_001 })
        await inside(({ sandboxes }) => sandboxes.insert(first))
        const sameName = sandbox(OTHER, { name: 'one' })
        await expect(inside(({ sandboxes }) => sandboxes.insert(sameName))).rejects.toThrow()
        const sameUser = sandbox(OTHER, { name: 'two', allocated_uid: 2_000_000_001 })
        await expect(inside(({ sandboxes }) => sandboxes.insert(sameUser))).rejects.toThrow()
        const neither = [sandbox(OTHER, { name: 'two' }), sandbox('sbx_c', { name: 'three' })]
        await inside(async ({ sandboxes }) => {
          await sandboxes.remove(BOX)
          for (const row of [...neither, { ...first, id: 'sbx_d' }]) await sandboxes.insert(row)
        })
        expect(await inside(({ sandboxes }) => sandboxes.list({}, 10))).toHaveLength(3)
      })

      it('reports that a begin receipt is in use by an open job or a pending operation, while the sandbox exists', async () => {
        await inside(async ({ sandboxes, sandboxJobs }) => {
          await sandboxes.insert(sandbox(BOX, { name: 'one', pending: { begin_id: 'rcpt_create' } }))
          await sandboxJobs.insert(job('job_1'))
          await sandboxJobs.insert(job('job_2', { state: 'ended' }))
          await sandboxJobs.insert(job('job_3', { sandboxId: OTHER }))
        })
        const holdsOf = (id: string) => inside(({ sandboxes }) => sandboxes.holds(id))
        expect(await holdsOf('rcpt_create')).toBe(true)
        expect(await holdsOf('rcpt_job_1')).toBe(true)
        expect(await holdsOf('rcpt_job_2')).toBe(false)
        expect(await holdsOf('rcpt_job_3')).toBe(false)
        expect(await holdsOf('rcpt_other')).toBe(false)
        await inside(({ sandboxes }) => sandboxes.remove(BOX))
        expect(await holdsOf('rcpt_create')).toBe(false)
        expect(await holdsOf('rcpt_job_1')).toBe(false)
      })
    })

    describe('snapshots', () => {
      it('allows a name for only one snapshot at a time, and finds a snapshot by its name', async () => {
        const row = (id: string, name: string) => ({
          id,
          document: JSON.stringify({ name }),
          seal: 'seal',
          createdAtMs: 1,
        })
        await inside(({ snapshots }) => snapshots.insert(row('snap_a', 'one')))
        expect(await inside(({ snapshots }) => snapshots.insert(row('snap_a', 'two')))).toBe(false)
        await expect(inside(({ snapshots }) => snapshots.insert(row('snap_b', 'one')))).rejects.toThrow()
        const found = await inside(({ snapshots }) => snapshots.list({ name: 'one' }, 10))
        expect(found).toEqual([row('snap_a', 'one')])
        expect(await inside(({ snapshots }) => snapshots.remove('snap_a'))).toBe(true)
        expect(await inside(({ snapshots }) => snapshots.insert(row('snap_b', 'one')))).toBe(true)
      })
    })

    describe('warm instances', () => {
      it('allows a user for only one instance at a time', async () => {
        const row = (id: string, allocated_uid: number | null) => ({
          id,
          document: JSON.stringify({ allocated_uid }),
          seal: 'seal',
          createdAtMs: 1,
        })
        await inside(({ warmInstances: warmPlaces }) => warmPlaces.insert(row('sbx_a', 7)))
        await expect(
          inside(({ warmInstances: warmPlaces }) => warmPlaces.insert(row('sbx_b', 7))),
        ).rejects.toThrow()
        expect(await inside(({ warmInstances: warmPlaces }) => warmPlaces.insert(row('sbx_b', null)))).toBe(
          true,
        )
        expect(await inside(({ warmInstances: warmPlaces }) => warmPlaces.insert(row('sbx_c', null)))).toBe(
          true,
        )
        expect(await inside(({ warmInstances: warmPlaces }) => warmPlaces.list({}, 10))).toHaveLength(3)
        expect(await inside(({ warmInstances: warmPlaces }) => warmPlaces.remove('sbx_a'))).toBe(true)
        expect(await inside(({ warmInstances: warmPlaces }) => warmPlaces.insert(row('sbx_d', 7)))).toBe(true)
      })
    })

    describe('jobs', () => {
      it('returns a stored job, only once per sandbox and id', async () => {
        const row = job('job_1', { document: '{"operator":"ada"}' })
        expect(await inside(({ sandboxJobs }) => sandboxJobs.insert(row))).toBe(true)
        const again = { ...row, beginId: 'rcpt_again' as ReceiptId }
        expect(await inside(({ sandboxJobs }) => sandboxJobs.insert(again))).toBe(false)
        expect(await inside(({ sandboxJobs }) => sandboxJobs.get(BOX, 'job_1'))).toEqual({
          ...row,
          operator: 'ada',
        })
        expect(await inside(({ sandboxJobs }) => sandboxJobs.get(OTHER, 'job_1'))).toBeUndefined()
      })

      it('refuses the begin receipt of another job', async () => {
        await inside(({ sandboxJobs }) => sandboxJobs.insert(job('job_1')))
        const same = job('job_2', { beginId: 'rcpt_job_1' as ReceiptId })
        await expect(inside(({ sandboxJobs }) => sandboxJobs.insert(same))).rejects.toThrow()
      })

      it('ends a job once, and lists the open jobs oldest first', async () => {
        await inside(async ({ sandboxJobs }) => {
          await sandboxJobs.insert(job('job_2', { createdAtMs: 2 }))
          await sandboxJobs.insert(job('job_1', { createdAtMs: 1 }))
          await sandboxJobs.insert(job('job_3', { createdAtMs: 3 }))
        })
        expect(await inside(({ sandboxJobs }) => sandboxJobs.end(BOX, 'job_2'))).toBe(true)
        expect(await inside(({ sandboxJobs }) => sandboxJobs.end(BOX, 'job_2'))).toBe(false)
        const open = await inside(({ sandboxJobs }) => sandboxJobs.open(BOX))
        expect(open.map(({ jobId }) => jobId)).toEqual(['job_1', 'job_3'])
      })

      it('lists the jobs of all sandboxes page by page, ended or not', async () => {
        await inside(async ({ sandboxJobs }) => {
          await sandboxJobs.insert(job('job_2', { state: 'ended' }))
          await sandboxJobs.insert(job('job_1'))
          await sandboxJobs.insert(job('job_3', { sandboxId: OTHER }))
        })
        const first = await inside(({ sandboxJobs }) => sandboxJobs.scan(undefined, 2))
        const rest = await inside(({ sandboxJobs }) => sandboxJobs.scan(first.at(-1), 2))
        expect([...first, ...rest].map(({ jobId }) => jobId).sort()).toEqual(['job_1', 'job_2', 'job_3'])
        expect(await inside(({ sandboxJobs }) => sandboxJobs.scan(rest.at(-1), 2))).toEqual([])
      })

      it('adopts and updates only an existing job', async () => {
        await inside(({ sandboxJobs }) => sandboxJobs.insert(job('job_1')))
        const owner = { ...OWNER, pid: 8 }
        expect(await inside(({ sandboxJobs }) => sandboxJobs.adopt(BOX, 'job_1', owner))).toBe(true)
        const changed = { sandboxId: BOX, jobId: 'job_1' as JobId, document: '{"x":1}', seal: 's2' }
        expect(await inside(({ sandboxJobs }) => sandboxJobs.update(changed))).toBe(true)
        expect(await inside(({ sandboxJobs }) => sandboxJobs.get(BOX, 'job_1'))).toMatchObject({
          owner,
          adopted: true,
          document: '{"x":1}',
          seal: 's2',
        })
        await inside(({ sandboxJobs }) => sandboxJobs.end(BOX, 'job_1'))
        expect(await inside(({ sandboxJobs }) => sandboxJobs.adopt(BOX, 'job_1', OWNER))).toBe(false)
        const nowhere = { ...changed, sandboxId: OTHER }
        expect(await inside(({ sandboxJobs }) => sandboxJobs.update(nowhere))).toBe(false)
      })

      it('keeps the ended jobs with the highest ids, and all open jobs', async () => {
        await inside(async ({ sandboxJobs }) => {
          await sandboxJobs.insert(job('job_1'))
          for (const id of ['job_5', 'job_2', 'job_4', 'job_3'])
            await sandboxJobs.insert(job(id, { state: 'ended' }))
          await sandboxJobs.insert(job('job_0', { sandboxId: OTHER, state: 'ended' }))
        })
        const remove = (keep: number) => inside(({ sandboxJobs }) => sandboxJobs.removeOld(BOX, keep))
        expect(await remove(4)).toBeUndefined()
        expect(await remove(2)).toBe('job_3')
        expect(await remove(2)).toBeUndefined()
        const hasJob = async (id: string, box = BOX) =>
          (await inside(({ sandboxJobs }) => sandboxJobs.get(box, id))) !== undefined
        for (const id of ['job_1', 'job_4', 'job_5']) expect(await hasJob(id)).toBe(true)
        for (const id of ['job_2', 'job_3']) expect(await hasJob(id)).toBe(false)
        expect(await hasJob('job_0', OTHER)).toBe(true)
      })

      it('removes the jobs of one sandbox and no others', async () => {
        await inside(async ({ sandboxJobs }) => {
          await sandboxJobs.insert(job('job_1'))
          await sandboxJobs.insert(job('job_2', { sandboxId: OTHER }))
          await sandboxJobs.removeAll(BOX)
        })
        expect(await inside(({ sandboxJobs }) => sandboxJobs.open(BOX))).toEqual([])
        expect(await inside(({ sandboxJobs }) => sandboxJobs.open(OTHER))).toHaveLength(1)
      })
    })

    describe('counts of boundaries', () => {
      const row = (epoch: string, counts: string, sandboxId = BOX) => ({
        sandboxId,
        epoch,
        counts,
        updatedAtMs: 5,
      })

      it('change until the boundary is closed, which happens once', async () => {
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.put(row('e1', '{"a":1}')))).toBe(true)
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.put(row('e1', '{"a":2}')))).toBe(true)
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.close(BOX, 'e1'))).toBe(true)
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.close(BOX, 'e1'))).toBe(false)
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.put(row('e1', '{"a":3}')))).toBe(false)
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.get(BOX, 'e1'))).toEqual({
          ...row('e1', '{"a":2}'),
          closed: true,
        })
        expect(await inside(({ boundaryEpochs }) => boundaryEpochs.close(BOX, 'e9'))).toBe(false)
      })

      it('are listed while the boundary is open, for one sandbox or for all', async () => {
        await inside(async ({ boundaryEpochs }) => {
          await boundaryEpochs.put(row('e1', '{}'))
          await boundaryEpochs.put(row('e2', '{}'))
          await boundaryEpochs.put(row('e3', '{}', OTHER))
          await boundaryEpochs.close(BOX, 'e1')
        })
        const epochs = (id?: string) =>
          inside(async ({ boundaryEpochs }) => (await boundaryEpochs.open(id)).map(({ epoch }) => epoch))
        expect(await epochs(BOX)).toEqual(['e2'])
        expect(await epochs()).toEqual(['e2', 'e3'])
        await inside(({ boundaryEpochs }) => boundaryEpochs.removeAll(BOX))
        expect(await epochs()).toEqual(['e3'])
      })
    })
  })
}

function sandbox(id: string, document: object) {
  return { id, document: JSON.stringify(document), seal: 'seal', createdAtMs: 1 }
}

function job(
  id: string,
  fields: Partial<Omit<SandboxJobRow, 'operator'>> = {},
): Omit<SandboxJobRow, 'operator'> {
  return {
    sandboxId: BOX,
    jobId: id as JobId,
    beginId: `rcpt_${id}` as ReceiptId,
    document: '{}',
    seal: 'seal',
    state: 'open',
    owner: OWNER,
    adopted: false,
    createdAtMs: 1,
    ...fields,
  }
}
