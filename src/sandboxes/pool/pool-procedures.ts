/** Records warm instances: from before Craik starts one until nothing of it is left, or a sandbox has it. */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { type Owner, sameOwner } from '../../lib/owner.ts'
import { requireCapacity, UNBOUNDED } from '../lifecycle/admission.ts'
import { isFree } from '../lifecycle/recovery-procedures.ts'
import { MAX_SANDBOXES, type RecordedInstance } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { freeUser, usedUids } from '../lifecycle/sandbox-users.ts'
import type { BeginWarmInput, LeaveWarmOutput } from './tokens.ts'
import { MAX_WARM_ROWS, parseWarm, type WarmRecord } from './warm-record.ts'

export async function beginWarm(records: SandboxRecords, input: BeginWarmInput): Promise<WarmRecord> {
  const {
    id,
    backend,
    isolation,
    limits,
    hostUser,
    late: hotMounts,
    container,
    admission = UNBOUNDED,
    owner,
  } = input
  const rows = [
    ...(await records.tables.sandboxes.list({}, 2 * MAX_SANDBOXES)),
    ...(await records.tables.warmInstances.list({}, MAX_WARM_ROWS)),
  ]
  requireCapacity(rows, limits, admission, 'create')
  const allocated = hostUser === 'allocate' ? freeUser(usedUids(rows)) : undefined
  return put(
    records,
    {
      id,
      backend,
      state: 'starting',
      spec: {
        isolation,
        workspace: { mode: 'copy' },
        mounts: [],
        volumes: [],
        limits,
        environment: {},
        harnesses: [],
        credentials: 'none',
        hostUser: (hostUser === 'allocate' ? allocated : hostUser) ?? null,
        container: container ?? null,
      },
      late: hotMounts ?? null,
      place: null,
      allocated_uid: allocated?.uid ?? null,
      owner,
      created_at_ms: records.nowMs,
    },
    'insert',
  )
}

export async function readyWarm(
  records: SandboxRecords,
  {
    id,
    place: instance,
    owner,
  }: { readonly id: SandboxId; readonly place: RecordedInstance; readonly owner: Owner },
): Promise<WarmRecord> {
  const record = await findWarmInstance(records, id)
  if (record?.state !== 'starting' || !sameOwner(record.owner, owner))
    throw new CraikError('conflict', `the warm instance ${id} is not starting`)
  return put(records, { ...record, state: 'ready', place: instance }, 'update')
}

export async function releaseWarm(
  records: SandboxRecords,
  { id, owner }: { readonly id: SandboxId; readonly owner: Owner },
): Promise<LeaveWarmOutput> {
  const { warmInstances: warmPlaces, sandboxes } = records.tables
  if ((await warmPlaces.get(id)) === undefined) return { effect: 'gone' }
  // A row that Craik did not write could name a sandbox. It must not end that sandbox.
  if ((await sandboxes.get(id)) !== undefined) {
    await warmPlaces.remove(id)
    return { effect: 'gone' }
  }
  const record = await findWarmInstance(records, id)
  if (record === undefined) return { effect: 'left', record }
  if (!isFree(record.owner, owner)) return { effect: 'held' }
  return { effect: 'left', record: await put(records, { ...record, state: 'leaving' }, 'update') }
}

export async function dropWarm(records: SandboxRecords, { id }: { readonly id: SandboxId }): Promise<void> {
  await records.tables.warmInstances.remove(id)
}

/** Returns `undefined` when there is no such row, or when Craik did not write it. */
export async function findWarmInstance(records: SandboxRecords, id: string): Promise<WarmRecord | undefined> {
  const row = await records.tables.warmInstances.get(id)
  if (row === undefined || !records.isSealValid(sealOfWarm(id), row)) return undefined
  try {
    return parseWarm(row.document)
  } catch {
    return undefined
  }
}

async function put(
  records: SandboxRecords,
  record: WarmRecord,
  how: 'insert' | 'update',
): Promise<WarmRecord> {
  const document = canonicalJson(JSON.parse(JSON.stringify(record)) as Json)
  // A document that cannot be parsed again is never written.
  parseWarm(document)
  const seal = await records.sealer.sealRecord(records.tables, sealOfWarm(record.id), document)
  const row = { id: record.id, document, seal, createdAtMs: record.created_at_ms }
  const { warmInstances: warmPlaces } = records.tables
  const done = how === 'insert' ? await warmPlaces.insert(row) : await warmPlaces.update(row)
  if (!done) throw new CraikError('conflict', `the warm instance ${record.id} already exists, or was removed`)
  return record
}

/** The label differs from that of a sandbox's seal, so that neither record can replace the other. */
function sealOfWarm(id: string): string {
  return `warm_place:${id}`
}
