/** Takes over what an earlier process left: asks each sandbox first, and never touches what somebody living holds. */
import { setTimeout as sleep } from 'node:timers/promises'
import { currentOwner, type Owner, ownerState } from '../../lib/owner.ts'
import { signReceipts } from '../../receipts/log.ts'
import { listSandboxes } from '../lifecycle/read-records.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  adoptJobs,
  changeSandbox,
  closeLeftEpochs,
  closeOrphans,
  endCreate,
  forgetJobs,
} from '../lifecycle/tokens.ts'
import type { Holder } from './holder.ts'
import type { ManagerOptions } from './options.ts'
import { finishDelete, takeDown } from './remove.ts'

/** One that was replaced has let go of everything when its successor comes, and takes a moment to end. */
const ENDING_MS = 5_000
const POLL_MS = 10

export async function recoverSandboxes(options: ManagerOptions, holder: Holder): Promise<void> {
  const failed = (what: string, error: unknown, sandbox?: string) => {
    const why = error instanceof Error ? error.message : String(error)
    options.logger('error', `${what}: ${why}`, { ...(sandbox && { sandbox }) })
  }
  for (const backend of Object.values(options.backends))
    await backend
      .endLeftovers()
      .catch((error) => failed('what was left of earlier probes could not be ended', error))
  for (const { id, ...listed } of await listSandboxes(options)) {
    try {
      if (listed.record !== undefined) await recoverOne(options, holder, listed.record)
      // What was edited in the database names no process to end and no folder to remove.
      else options.logger('error', listed.problem, { sandbox: id })
    } catch (error) {
      failed('the sandbox could not be recovered', error, id)
    }
  }
  // A supervisor that was killed may have left receipts that nobody has signed.
  await options.store
    .write(signReceipts, undefined)
    .catch((error) => failed('what was left unsigned could not be signed', error))
}

async function recoverOne(options: ManagerOptions, holder: Holder, record: SandboxRecord): Promise<void> {
  const { store } = options
  if (holder.get(record.id) !== undefined) return
  if (record.pending !== null && !(await isLeft(record.pending.owner))) return
  switch (record.state) {
    case 'creating':
      await takeDown(options, holder, record)
      await store.write(endCreate, { id: record.id, status: 'indeterminate' })
      return
    case 'deleting':
      await finishDelete(options, holder, record)
      return
    case 'running':
      await recoverRunning(options, holder, record)
      return
    case 'lost':
      await store.write(closeOrphans, { id: record.id, keep: [], owner: options.log.owner })
      await store.write(closeLeftEpochs, { id: record.id })
      return
  }
}

async function recoverRunning(options: ManagerOptions, holder: Holder, record: SandboxRecord): Promise<void> {
  const { store, log, backends } = options
  const { id } = record
  const open = await store.read((tables) => tables.sandboxJobs.open(id))
  for (const { owner } of open) if (owner !== null && !(await isLeft(owner))) return
  const handle = holder.handleOf(record)
  const place = handle && (await backends[record.backend].recover(handle, holder.specOf(record)))
  if (place === undefined) {
    await store.write(closeOrphans, { id, keep: [], owner: log.owner })
    await store.write(closeLeftEpochs, { id })
    const notice = 'it ended while nobody watched, such as with a restart of the machine'
    await store.write(changeSandbox, { id, state: 'lost', notice })
    await backends[record.backend].sweep(holder.specOf(record), handle)
    return
  }
  const jobs = await store.write(adoptJobs, {
    id,
    jobIds: open.map(({ jobId }) => jobId),
    owner: log.owner,
  })
  const beganAtMs = new Map(open.map((row) => [row.jobId, row.createdAtMs]))
  const held = await holder.take(
    record,
    jobs.map((job) => ({ ...job, beganAtMs: beganAtMs.get(job.jobId)! })),
  )
  held.session.events.add('recovered')
  const left = open.length - jobs.length
  const notice = `the records of ${left} of its jobs were changed outside Craik: they are left as they are`
  if (left > 0) options.logger('error', notice, { sandbox: id })
  await store.write(changeSandbox, { id, epoch: held.session.epoch, ...(left > 0 && { notice }) })
  await store.write(closeLeftEpochs, { id, except: held.session.epoch })
  await store.write(forgetJobs, { id })
  holder.watch(held, place)
}

/** Its process is dead, or is this one, which let go of it before. */
async function isLeft(owner: Owner): Promise<boolean> {
  const self = currentOwner()
  if (owner.pid === self.pid && owner.startedAt === self.startedAt && owner.bootId === self.bootId)
    return true
  const endsMs = performance.now() + ENDING_MS
  while (ownerState(owner) !== 'dead') {
    if (performance.now() > endsMs) return false
    await sleep(POLL_MS)
  }
  return true
}
