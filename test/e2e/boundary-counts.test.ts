/**
 * Compares the counts of a boundary with the log, through the real store and command line: live, and as an exported
 * file.
 */
import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { type JobId, newId, type SandboxId } from '../../src/lib/ids.ts'
import { currentOwner } from '../../src/lib/owner.ts'
import type { BoundaryCounts } from '../../src/sandboxes/boundary/boundary.ts'
import {
  ADA_USER,
  approveCreate,
  creation,
  EPOCH,
  hello,
  NO_COUNTS,
  operation,
  PLACE,
} from '../../src/sandboxes/lifecycle/lifecycle.fixture.ts'
import {
  beginCreate,
  beginOperation,
  closeEpoch,
  endCreate,
  endOperation,
  saveCounts,
} from '../../src/sandboxes/lifecycle/tokens.ts'
import type { Store } from '../../src/store/store.ts'
import { TestHome } from '../craik.ts'
import { openLog } from '../faults/log.ts'

let home: TestHome
beforeEach(() => {
  home = new TestHome()
})
afterEach(() => home[Symbol.dispose]())

interface Verified {
  readonly outcome: string
  readonly boundaries: {
    readonly epochs: number
    readonly operations: number
    readonly differ: readonly { readonly sandbox_id: string; readonly detail: string }[]
  }
  readonly replay?: {
    readonly decisions: number
    readonly agree: number
    readonly differ: readonly unknown[]
  }
}

/** Creates a sandbox in which two commands ran, according to the log. `work` does the rest. */
async function twoCommands(work: (store: Store, id: SandboxId) => Promise<unknown>): Promise<SandboxId> {
  await using log = await openLog(home.home)
  const { store } = log
  await approveCreate(store, systemClock, { operator: ADA_USER, name: 'box' })
  const id = newId<SandboxId>('sbx', systemClock.nowMs())
  expect(await store.write(beginCreate, creation({ id, name: 'box' }))).toMatchObject({ effect: 'allowed' })
  await store.write(endCreate, { id, status: 'passed', place: PLACE })
  for (let n = 0; n < 2; n++) {
    const jobId = newId<JobId>('job', systemClock.nowMs())
    const answer = await store.write(beginOperation, operation(id, hello(jobId)))
    if (answer.effect === 'denied') throw new Error('denied')
    await store.write(endOperation, { id, begun: answer.begun, jobId, status: 'passed' })
  }
  await work(store, id)
  return id
}

const closeEpochWith =
  (counts: Partial<BoundaryCounts>) =>
  (store: Store, id: SandboxId): Promise<unknown> =>
    store.write(closeEpoch, { id, epoch: EPOCH, counts: { ...NO_COUNTS, ...counts } })

async function exportLog(): Promise<readonly string[]> {
  const [log, key] = [await home.run(['receipts', 'export']), await home.run(['receipts', 'key'])]
  writeFileSync(home.path('log.jsonl'), log.stdout)
  writeFileSync(home.path('craik.pub'), key.stdout)
  return ['receipts', 'verify', home.path('log.jsonl'), '--public-key', home.path('craik.pub')]
}

test('matching counts verify, live and as a file, and every decision is recomputed', async () => {
  await twoCommands(closeEpochWith({ jobs: 2 }))
  const live = await home.run(['receipts', 'verify', '--replay', '--format', 'json'])
  expect(live).toMatchObject({ code: 0 })
  const { boundaries, replay } = JSON.parse(live.stdout) as Verified
  expect(boundaries).toMatchObject({ epochs: 1, operations: 2, differ: [] })
  expect(replay).toMatchObject({ decisions: 3, agree: 3, differ: [] })
  const file = await home.run([...(await exportLog()), '--replay', '--format', 'table'])
  expect(file).toMatchObject({ code: 0 })
  expect(file.stdout).toContain('sandboxes ✓ 2 operations, each with its receipt')
})

test('an effect without a receipt is reported, and the exit code is that of a tampered log', async () => {
  const id = await twoCommands(closeEpochWith({ jobs: 3 }))
  const detail = `sandbox ${id} ${EPOCH}: the boundary opened 3 jobs, receipts account for 2`
  const live = await home.run(['receipts', 'verify', '--format', 'table'])
  expect(live.stdout).toContain(`✗ ${detail}`)
  expect(live.code).toBe(1)
  const file = await home.run([...(await exportLog()), '--format', 'json'])
  expect(file.code).toBe(1)
  expect(JSON.parse(file.stdout)).toMatchObject({
    outcome: 'tampered',
    boundaries: { differ: [{ sandbox_id: id, detail }] },
  })
})

test('the counts of an open boundary are compared with the live log', async () => {
  const save = (jobs: number) => (store: Store, id: SandboxId) =>
    store.write(saveCounts, { id, epoch: EPOCH, counts: { ...NO_COUNTS, jobs } })
  await twoCommands(save(3))
  const live = await home.run(['receipts', 'verify', '--format', 'json'])
  expect(live.code).toBe(1)
  expect((JSON.parse(live.stdout) as Verified).boundaries.differ).toHaveLength(1)
})

test('a job that a dead process began in a sandbox stays open after another process writes', async () => {
  const dead = { ...currentOwner(), startedAt: 'long ago' }
  await twoCommands(async (store, id) => {
    const jobId = newId<JobId>('job', systemClock.nowMs())
    await store.write(beginOperation, operation(id, { ...hello(jobId), owner: dead }))
    await store.write(beginOperation, operation(id, { operation: 'file_stat', owner: dead }))
  })
  await using log = await openLog(home.home)
  await log.log.append({
    kind: 'grant',
    status: 'passed',
    operator: ADA_USER,
    capability: 'grant.write',
    links: {},
  })
  const open = await log.store.read(({ openReceipts }) => openReceipts.list())
  expect(open).toHaveLength(1)
  const begin = await log.store.read(({ receipts }) => receipts.get(open[0]!.id))
  expect(JSON.parse(begin!.line).body).toMatchObject({ capability: 'sandbox.exec' })
})
