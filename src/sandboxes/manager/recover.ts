/**
 * Takes over what an earlier process left. It queries each sandbox first, and never touches one that a living process
 * manages.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxId } from '../../lib/ids.ts'
import { currentOwner, hasOtherFileOpen, type Owner, ownerState, sameOwner } from '../../lib/owner.ts'
import { signReceipts } from '../../receipts/receipt-log.ts'
import type { SandboxInstance } from '../backend.ts'
import { getSandbox, listSandboxes } from '../lifecycle/read-records.ts'
import { isDamage, type SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  adoptJobs,
  changeSandbox,
  closeLeftEpochs,
  closeOrphans,
  endCreate,
  endDelete,
  endTransition,
  forgetJobs,
} from '../lifecycle/tokens.ts'
import { OPERABLE, STATES, TRANSITIONS, verbInProgress } from '../lifecycle/transitions.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { undoRestore } from './restore.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, removeDisk } from './start-instance.ts'
import { reasonOf } from './transition.ts'

/** A process that was replaced has released everything when its successor starts, but it takes a moment to exit. */
const ENDING_MS = 5_000
const POLL_MS = 10

export async function recoverSandboxes(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
): Promise<void> {
  for (const backend of Object.values(options.backends))
    await backend
      .endLeftovers?.()
      .catch((error) => options.logger('error', `could not stop leftover probes: ${reasonOf(error)}`))
  for (const { id, ...listed } of await listSandboxes(options)) {
    if (listed.record === undefined) {
      // A record that was edited in the database is not used to end a process or to remove a folder.
      options.logger('error', listed.problem, { sandbox: id })
      continue
    }
    try {
      await recoverOne(options, registry, listed.record)
    } catch (error) {
      retryLater(options, retries, listed.record.id, error)
    }
  }
  // A supervisor that was killed may have left unsigned receipts.
  await options.store
    .write(signReceipts, undefined)
    .catch((error) => options.logger('error', `could not sign earlier receipts: ${reasonOf(error)}`))
}

/** Tries again to take over a sandbox. One that is gone, or was changed outside Craik, needs no further attempt. */
export async function recoverAgain(
  options: ManagerOptions,
  registry: SandboxRegistry,
  id: SandboxId,
): Promise<void> {
  let record: SandboxRecord
  try {
    record = await getSandbox(options, id)
  } catch {
    return
  }
  await recoverOne(options, registry, record)
}

/** Schedules another attempt. A sandbox that could not be reached is not necessarily gone. */
function retryLater(options: ManagerOptions, retries: RecoveryRetries, id: SandboxId, error: unknown): void {
  options.logger('error', `could not recover the sandbox: ${reasonOf(error)}`, { sandbox: id })
  if (!isDamage(error)) retries.later(id, error)
}

async function recoverOne(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  if (registry.get(record.id) !== undefined) return
  if (record.pending !== null && !(await isLeft(options, record.pending.owner))) return
  const settled = record.pending === null ? record : await settle(options, registry, record)
  if (settled === undefined) return
  // A restore may be recorded as done and not cleaned up.
  await requireBackend(options.backends, settled.backend).disks?.keepCurrent(registry.specOf(settled))
  if (STATES[settled.state].usesCapacity) await takeOver(options, registry, settled)
  else await closeLeft(options, settled)
}

/**
 * Finishes or undoes the transition in progress, as the table says. Returns the record after that, if it still exists.
 */
async function settle(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<SandboxRecord | undefined> {
  const { store } = options
  const { id, state, pending } = record
  const verb = verbInProgress(state, pending!.from)
  if (verb === undefined) return record
  const status = TRANSITIONS[verb].recovery === 'finish' ? 'passed' : 'indeterminate'
  switch (verb) {
    case 'create':
    case 'delete':
      await clearInstance(options, registry, record)
      await removeDisk(options, registry, record)
      await store.write(closeLeftEpochs, { id })
      if (verb === 'create') await store.write(endCreate, { id, status: 'indeterminate' })
      else await store.write(endDelete, { id, status: 'passed' })
      return undefined
    case 'stop':
    case 'resume':
      await clearInstance(options, registry, record)
      break
    case 'restore':
      await undoRestore(options, registry, record)
      break
    case 'pause':
    case 'unpause':
    case 'snapshot':
      // Processes that ran before must continue, whichever process froze them.
      if (verb !== 'snapshot' || pending!.from === OPERABLE)
        await (await findInstance(options, registry, record))?.unpause?.()
      break
  }
  return (await store.write(endTransition, { id, status })).record
}

async function closeLeft(options: ManagerOptions, { id }: SandboxRecord): Promise<void> {
  const { store, log } = options
  const open = await store.read((tables) => tables.sandboxJobs.open(id))
  const elsewhere = open.flatMap(({ owner }) =>
    owner && hasOtherFileOpen(owner, options.home.database) ? [owner] : [],
  )
  await store.write(closeOrphans, { id, keep: [], owner: log.owner, elsewhere })
  await store.write(closeLeftEpochs, { id })
}

/** Throws when the backend cannot determine that now. */
async function findInstance(
  { backends }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<SandboxInstance | undefined> {
  const handle = registry.handleOf(record)
  return handle && (await requireBackend(backends, record.backend).recover(handle, registry.specOf(record)))
}

async function takeOver(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const { store, log, backends } = options
  const { id } = record
  const open = await store.read((tables) => tables.sandboxJobs.open(id))
  for (const { owner } of open) if (owner !== null && !(await isLeft(options, owner))) return
  const instance = await findInstance(options, registry, record)
  if (instance === undefined) {
    const notice = await whyLost(options, registry, record)
    await closeLeft(options, record)
    await store.write(changeSandbox, { id, state: 'lost', notice })
    await requireBackend(backends, record.backend).sweep(registry.specOf(record), registry.handleOf(record))
    return
  }
  const jobs = await store.write(adoptJobs, {
    id,
    jobIds: open.map(({ jobId }) => jobId),
    owner: log.owner,
  })
  const beganAtMs = new Map(open.map((row) => [row.jobId, row.createdAtMs]))
  const active = await registry.take(
    record,
    jobs.map((job) => ({ ...job, beganAtMs: beganAtMs.get(job.jobId)! })),
  )
  active.session.events.add('recovered')
  const left = open.length - jobs.length
  const notice = `the records of ${left} of its jobs were changed outside Craik; Craik does not modify them`
  if (left > 0) options.logger('error', notice, { sandbox: id })
  await store.write(changeSandbox, { id, epoch: active.session.epoch, ...(left > 0 && { notice }) })
  await store.write(closeLeftEpochs, { id, except: active.session.epoch })
  await store.write(forgetJobs, { id })
  registry.watch(active, instance)
}

async function whyLost(
  { backends }: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<string> {
  const handle = registry.handleOf(record)
  const backend = requireBackend(backends, record.backend)
  const other = handle && (await backend.locateOtherHome?.(handle, registry.specOf(record)))
  if (other === undefined)
    return 'it ended while no supervisor was running, for example when the machine restarted'
  const where = other.path === undefined ? '' : ` (${other.path.slice(0, 300)})`
  return `it runs in another home${where}; this home is a copy of that one`
}

/**
 * Returns whether the owner no longer manages the sandbox: its process is dead or works in another home, or it is this
 * process, which released the sandbox before.
 */
async function isLeft({ home }: ManagerOptions, owner: Owner): Promise<boolean> {
  if (sameOwner(owner, currentOwner())) return true
  const endsMs = performance.now() + ENDING_MS
  while (ownerState(owner) !== 'dead') {
    if (hasOtherFileOpen(owner, home.database)) return true
    if (performance.now() > endsMs) return false
    await sleep(POLL_MS)
  }
  return true
}
