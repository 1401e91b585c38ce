/** The starting point for store tests about sandboxes: an operator, a running sandbox, and jobs in it. */
import { inProcessStore } from '../../../test/in-process-store.ts'
import type { Clock } from '../../lib/clock.ts'
import { type JobId, newId, type SandboxId } from '../../lib/ids.ts'
import { currentOwner, type Owner } from '../../lib/owner.ts'
import { createGrant } from '../../policy/grants.ts'
import { START_MS, TestClock } from '../../policy/policy.fixture.ts'
import type { Store } from '../../store/store.ts'
import type { BoundaryCounts } from '../boundary/boundary.ts'
import { createTarget } from './sandbox-grants.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import {
  type BeginCreateInput,
  type BeginOperationInput,
  beginCreate,
  beginOperation,
  endCreate,
} from './tokens.ts'

export const ADA_USER = 'local-user:ada'
export const BOB = 'local-user:bob'
export const EPOCH = 'epoch_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'
/** This pid exists, but no process with it started at that time. */
export const DEAD: Owner = { ...currentOwner(), startedAt: 'long ago' }
export const ME = currentOwner()

export const PLACE = {
  handle: { pid: 4711, startedAt: '99' },
  isolation: 'process' as const,
  hostUid: 2_100_000_123,
  enforced: {
    memory: 'cgroup' as const,
    processes: 'cgroup' as const,
    cpu: 'not-asked' as const,
    disk: 'filesystem' as const,
  },
}

export const NO_COUNTS: BoundaryCounts = {
  jobs: 0,
  reads: 0,
  writes: 0,
  forwards: 0,
  looks: 0,
  signals: 0,
  connections: 0,
  bytesIn: 0,
  bytesOut: 0,
}

export const newSandboxId = () => newId<SandboxId>('sbx', START_MS)
export const newJobId = () => newId<JobId>('job', START_MS)

export function creation(changes: Partial<BeginCreateInput> = {}): BeginCreateInput {
  return {
    id: newSandboxId(),
    operator: ADA_USER,
    backend: 'process',
    isolation: 'process',
    workspace: { mode: 'copy' },
    limits: { memoryBytes: 1 << 30, processes: 100 },
    environment: {},
    hostUser: 'allocate',
    owner: ME,
    ...changes,
  }
}

export function operation(id: SandboxId, changes: Partial<BeginOperationInput> = {}): BeginOperationInput {
  return { id, operation: 'metrics', operator: ADA_USER, epoch: EPOCH, owner: ME, ...changes }
}

/** Returns a job that prints hello. */
export function hello(jobId = newJobId()): Pick<BeginOperationInput, 'operation' | 'job'> {
  const argv = ['echo', 'hello', 'hunter2-is-my-argument']
  return { operation: 'exec', job: { id: jobId, spec: { kind: 'exec', argv }, argv } }
}

/** Grants this operator one creation of a sandbox with this name. */
export function approveCreate(
  store: Store,
  clock: Clock,
  { operator, name }: { readonly operator: string; readonly name?: string },
) {
  const terms = {
    capability: 'sandbox.create',
    operations: ['create'],
    subject: operator,
    scope: 'any' as const,
    target: { ref: createTarget(name) },
    max_uses: 1,
    approved_by: operator,
  }
  return createGrant(store, terms, { expiresAtMs: clock.nowMs() + 60_000 })
}

/** Grants one sandbox the use of a folder, to write it or to read it. */
export function approveFolder(
  store: Store,
  clock: Clock,
  {
    operator = ADA_USER,
    folder,
    use,
  }: { readonly operator?: string; readonly folder: string; readonly use: string },
) {
  const terms = {
    capability: 'sandbox.mount',
    operations: [use],
    subject: operator,
    scope: 'any' as const,
    target: { paths: [folder] },
    max_uses: 1,
    approved_by: operator,
  }
  return createGrant(store, terms, { expiresAtMs: clock.nowMs() + 60_000 })
}

export class LifecycleStore {
  readonly clock = new TestClock()
  readonly store = inProcessStore(this.clock)

  /** Creates a running sandbox that belongs to Ada. */
  async sandbox(changes: Partial<BeginCreateInput> = {}): Promise<SandboxRecord> {
    const input = creation(changes)
    const { operator, name, workspace, mounts = [] } = input
    const folders = mounts.map(({ folder }) => ({ folder, use: 'read' }))
    if (workspace.mode === 'in-place') folders.push({ folder: workspace.folder, use: 'write' })
    for (const one of folders) await approveFolder(this.store, this.clock, { operator, ...one })
    await approveCreate(this.store, this.clock, { operator, ...(name !== undefined && { name }) })
    const begun = await this.store.write(beginCreate, input)
    if (begun.effect === 'denied') throw new Error(`denied by ${begun.evaluation.rule}`)
    const { record } = await this.store.write(endCreate, { id: input.id, status: 'passed', place: PLACE })
    return record!
  }

  begin(id: SandboxId, changes: Partial<BeginOperationInput> = {}) {
    return this.store.write(beginOperation, operation(id, changes))
  }

  /** Begins an operation. Throws when it is denied. */
  async beginAllowed(id: SandboxId, changes: Partial<BeginOperationInput> = {}) {
    const answer = await this.begin(id, changes)
    if (answer.effect === 'denied') throw new Error(`denied by ${answer.evaluation.rule}`)
    return answer.begun
  }

  /** Returns the lines of an export: the documents that decisions used, and the receipts. */
  async lines(): Promise<string[]> {
    const documents = await this.store.tables.documents.list()
    const rows = await this.store.tables.receipts.scan(0, 100_000)
    return [
      ...documents.map(({ digest, text }) => JSON.stringify({ _document: { digest, text } })),
      ...rows.map(({ line }) => line),
    ]
  }
}

/** Returns a row with the fields that admission reads. */
export function admissionRow(
  state: string,
  limits: Partial<SandboxRecord['spec']['limits']>,
  more: Readonly<Record<string, unknown>> = {},
): { readonly document: string } {
  return { document: JSON.stringify({ name: 'box', state, spec: { limits }, created_at_ms: 1, ...more }) }
}
