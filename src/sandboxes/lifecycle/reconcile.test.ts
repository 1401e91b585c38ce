import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { BoundaryCounts } from '../boundary/boundary.ts'
import { OPERATIONS } from '../operations.ts'
import {
  ADA_USER,
  BOB,
  EPOCH,
  hello,
  LifecycleStore,
  ME,
  NO_COUNTS,
  newJobId,
  operation,
} from './lifecycle.fixture.ts'
import { BoundaryReconciler } from './reconcile.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import {
  type BeginOperationInput,
  beginDelete,
  beginOperation,
  closeEpoch,
  closeLeftEpochs,
  endDelete,
  endOperation,
  refuseInbound,
  refuseSurplus,
  restartJob,
  saveCounts,
} from './tokens.ts'

type Crossing = BeginOperationInput['operation']

async function reconcile(fixture: LifecycleStore, without: (line: string) => boolean = () => false) {
  const reconciler = new BoundaryReconciler()
  const rows = await fixture.store.tables.receipts.scan(0, 100_000)
  for (const { line, seq } of rows) if (!without(line)) reconciler.receipt(Buffer.from(line), seq)
  return reconciler.finish()
}

async function perform(fixture: LifecycleStore, { id }: SandboxRecord, name: Crossing, bytesIn = 0) {
  const job = OPERATIONS[name].counted === 'jobs' ? { ...hello(newJobId()), operation: name } : undefined
  const begun = await fixture.beginAllowed(id, job ?? { operation: name })
  await fixture.store.write(endOperation, {
    id,
    begun,
    ...(job && { jobId: job.job!.id }),
    status: 'passed',
    measures: [{ name: 'bytes_in', value: bytesIn, source: 'observed' }],
  })
}

async function settleCounts(counts: Partial<BoundaryCounts>) {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  for (const name of ['exec', 'exec', 'terminal', 'file_read', 'file_write', 'forward', 'signal'] as const)
    await perform(fixture, record, name, 10)
  await fixture.store.write(refuseInbound, { id: record.id, epoch: EPOCH, count: 1, owner: ME })
  await fixture.store.write(refuseSurplus, { id: record.id, epoch: EPOCH, count: 3 })
  const all = { jobs: 3, reads: 1, writes: 1, forwards: 1, signals: 1, connections: 4, bytesIn: 100 }
  await fixture.store.write(closeEpoch, {
    id: record.id,
    epoch: EPOCH,
    counts: { ...NO_COUNTS, ...all, ...counts },
  })
  return { fixture, record }
}

test('a refusal of connections from the sandbox names the destinations, and nothing that looks like a secret', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  const secret = `ghp_${'a1B2c3D4e5'.repeat(4)}`.slice(0, 40)
  const destinations = [
    { destination: 'collector.example:443', count: 2 },
    { destination: `${secret}.example:443`, count: 1 },
    { destination: 'unparsable', count: 1 },
  ]
  await fixture.store.write(refuseInbound, { id, epoch: EPOCH, count: 4, destinations, owner: ME })
  const line = (await fixture.lines()).at(-1)!
  expect(line).not.toContain(secret)
  expect(JSON.parse(line).body).toMatchObject({
    kind: 'denial',
    capability: 'network.egress',
    metadata: { count: 4, destinations: [destinations[0], { count: 1 }, destinations[2]] },
  })
})

describe('a boundary with complete counts', () => {
  test('agrees with the receipts of what it opened', async () => {
    const { fixture } = await settleCounts({})
    expect(await reconcile(fixture)).toEqual({ epochs: 1, open: 0, operations: 7, differ: [] })
  })

  test.each([
    [{ jobs: 4 }, 'the boundary opened 4 jobs, receipts account for 3'],
    [{ jobs: 2 }, 'receipts record 3 jobs that passed, the boundary opened 2'],
    [{ looks: 1 }, 'the boundary opened 1 inspection, receipts account for 0'],
    [{ connections: 5 }, 'the boundary accepted 5 connections from the sandbox, receipts account for 4'],
    [{ bytesIn: 69 }, 'receipts record 70 bytes out of the sandbox, the boundary passed 69'],
  ])('is reported when it differs by %o', async (counts, detail) => {
    const { fixture, record } = await settleCounts(counts)
    const { differ } = await reconcile(fixture)
    expect(differ).toEqual([
      { sandboxId: record.id, epoch: EPOCH, detail: `sandbox ${record.id} ${EPOCH}: ${detail}` },
    ])
  })

  test('reveals that the receipts of an exec are missing', async () => {
    const { fixture } = await settleCounts({})
    const job = /"job_id":"(job_\w+)"/.exec((await fixture.lines()).join('\n'))![1]!
    const { differ } = await reconcile(fixture, (line) => line.includes(job))
    expect(differ.map(({ detail }) => detail.split(': ')[1])).toEqual([
      'the boundary opened 3 jobs, receipts account for 2',
    ])
  })

  test('is reported when its counts are recorded twice', async () => {
    const { fixture } = await settleCounts({})
    const reconciler = new BoundaryReconciler()
    const lines = (await fixture.store.tables.receipts.scan(0, 1000)).map(({ line }) => Buffer.from(line))
    for (const [seq, line] of lines.entries()) reconciler.receipt(line, seq)
    reconciler.receipt(lines.at(-1)!, lines.length)
    expect(reconciler.finish().differ.map(({ detail }) => detail)).toEqual([
      expect.stringContaining('its counts are recorded twice'),
    ])
  })

  test('is not compared with a log that begins in the middle', async () => {
    const { fixture } = await settleCounts({ jobs: 100 })
    const reconciler = new BoundaryReconciler()
    const [, ...rest] = await fixture.store.tables.receipts.scan(0, 1000)
    for (const { line, seq } of rest) reconciler.receipt(Buffer.from(line), seq)
    expect(reconciler.finish().differ).toEqual([])
  })
})

test('an operation that began and never reached the boundary is no difference', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  const begun = await fixture.beginAllowed(id)
  await fixture.store.write(endOperation, { id, begun, status: 'indeterminate' })
  await fixture.store.write(closeEpoch, { id, epoch: EPOCH, counts: NO_COUNTS })
  expect((await reconcile(fixture)).differ).toEqual([])
})

test('after a crash the last saved counts apply: fewer than the receipts is no difference, more is', async () => {
  for (const [looks, found] of [
    [1, 0],
    [2, 0],
    [3, 1],
  ] as const) {
    const fixture = new LifecycleStore()
    const record = await fixture.sandbox()
    await perform(fixture, record, 'metrics')
    await perform(fixture, record, 'metrics')
    await fixture.store.write(saveCounts, {
      id: record.id,
      epoch: EPOCH,
      counts: { ...NO_COUNTS, looks, connections: 9 },
    })
    expect(await fixture.store.write(closeLeftEpochs, { id: record.id, except: EPOCH })).toEqual([])
    expect(await fixture.store.write(closeLeftEpochs, { id: record.id })).toEqual([EPOCH])
    expect(await fixture.store.write(closeLeftEpochs, { id: record.id })).toEqual([])
    expect((await fixture.store.bodies()).at(-1)).toMatchObject({ metadata: { complete: false } })
    expect((await reconcile(fixture)).differ).toHaveLength(found)
  }
})

test('a job that is sent again in a later epoch counts there', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  const job = hello()
  const begun = await fixture.beginAllowed(id, job)
  const jobId = job.job!.id
  await fixture.store.write(closeEpoch, { id, epoch: EPOCH, counts: NO_COUNTS })
  await fixture.store.write(restartJob, { id, jobId, epoch: 'epoch_2', owner: ME })
  await fixture.store.write(endOperation, { id, begun, jobId, status: 'passed' })
  await fixture.store.write(closeEpoch, { id, epoch: 'epoch_2', counts: { ...NO_COUNTS, jobs: 1 } })
  expect(await reconcile(fixture)).toMatchObject({ epochs: 2, differ: [] })
})

test('counts only increase, are closed once, and the receipt marks them as observed', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  const save = (jobs: number) =>
    fixture.store.write(saveCounts, { id, epoch: EPOCH, counts: { ...NO_COUNTS, jobs } })
  await save(5)
  await save(3)
  expect(await fixture.store.write(closeEpoch, { id, epoch: EPOCH })).toBeDefined()
  expect(await fixture.store.write(closeEpoch, { id, epoch: EPOCH })).toBeUndefined()
  await expect(save(9)).rejects.toMatchObject({ code: 'conflict' })
  const counted = (await fixture.store.bodies()).at(-1)!
  expect(counted).toMatchObject({ operator: ADA_USER, links: { sandbox_id: id }, status: 'passed' })
  expect(counted.measures).toContainEqual({ name: 'jobs', value: 5, source: 'observed' })
  expect(counted.measures?.every(({ source }) => source === 'observed')).toBe(true)
})

test('a deleted sandbox leaves no epoch without counts', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  const { id } = record
  await perform(fixture, record, 'exec')
  await fixture.store.write(saveCounts, { id, epoch: EPOCH, counts: { ...NO_COUNTS, jobs: 1 } })
  await fixture.store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
  await fixture.store.write(endDelete, { id, status: 'passed' })
  expect(await reconcile(fixture)).toEqual({ epochs: 1, open: 0, operations: 1, differ: [] })
})

test('in the live log, the saved counts of an open epoch are compared too', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  await perform(fixture, record, 'metrics')
  const rows = await fixture.store.tables.receipts.scan(0, 1000)
  const verdict = (counts: string) => {
    const reconciler = new BoundaryReconciler()
    for (const { line, seq } of rows) reconciler.receipt(Buffer.from(line), seq)
    reconciler.recordCounts(record.id, EPOCH, counts)
    return reconciler.finish().differ.map(({ detail }) => detail.split(': ')[1])
  }
  expect(verdict(JSON.stringify({ ...NO_COUNTS, looks: 1 }))).toEqual([])
  expect(verdict(JSON.stringify({ ...NO_COUNTS, looks: 2 }))).toEqual([
    'the boundary opened 2 inspections, receipts account for 1',
  ])
  for (const edited of ['', 'null', '{"jobs":"1"}'])
    expect(verdict(edited)).toEqual(['cannot parse its saved counts'])
})

test('a denied operation does not count', async () => {
  const fixture = new LifecycleStore()
  const { id } = await fixture.sandbox()
  expect(await fixture.store.write(beginOperation, operation(id, { operator: BOB }))).toMatchObject({
    effect: 'denied',
  })
  await fixture.store.write(closeEpoch, { id, epoch: EPOCH, counts: { ...NO_COUNTS, looks: 1 } })
  expect((await reconcile(fixture)).differ).toHaveLength(1)
})

test('no line of any shape stops the reconciler', () => {
  fc.assert(
    fc.property(fc.array(fc.json()), (texts) => {
      const reconciler = new BoundaryReconciler()
      texts.forEach((text, seq) => {
        reconciler.receipt(Buffer.from(`{"body":${text},"x":{"sandbox_id":1}}`), seq)
        reconciler.receipt(Buffer.from(`{"body":{"links":{"sandbox_id":"s"},"metadata":${text}}}`), seq)
        reconciler.receipt(
          Buffer.from(
            `{"body":{"links":{"sandbox_id":"s"},"metadata":{"epoch":"e","count":${text}},"measures":${text},"kind":"sandbox_action","phase":"end","capability":"sandbox.exec","operation":"exec"}}`,
          ),
          seq,
        )
        reconciler.receipt(Buffer.from(text), seq)
      })
      reconciler.finish()
    }),
  )
})
