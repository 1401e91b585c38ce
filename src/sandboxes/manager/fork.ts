/** Creates a sandbox like an existing one: a snapshot of its disk, and a new sandbox from that. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { LimitSpec } from '../backend.ts'
import { harnessName } from '../harness-package.ts'
import { getSandbox } from '../lifecycle/read-records.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { CreateRequest, ForkRequest, ManagerCaller } from '../manager-types.ts'
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import type { ManagerOptions } from './manager-options.ts'
import { endsOf } from './sandbox-view.ts'
import { reasonOf } from './transition.ts'

export interface ForkSteps {
  /** Runs in the forked sandbox's mutex. */
  snapshot(caller: ManagerCaller): Promise<SnapshotRecord>
  create(caller: ManagerCaller, request: CreateRequest): Promise<SandboxRecord>
  drop(caller: ManagerCaller, snapshot: SnapshotRecord): Promise<unknown>
}

/**
 * The request's grant is for the creation; the snapshot's own grant is looked up. A snapshot that was taken only for
 * the fork is removed with it, whatever the outcome.
 */
export async function forkSandbox(
  options: ManagerOptions,
  caller: ManagerCaller,
  id: SandboxId,
  { from, name }: ForkRequest,
  steps: ForkSteps,
): Promise<SandboxRecord> {
  const record = await getSandbox(options, id)
  requireOwnWorkspace(record)
  const { grantId: _, ...asking } = caller
  const snapshot = from === undefined ? await steps.snapshot(asking) : await getSnapshot(options, from)
  try {
    requireOf(snapshot, record)
    return await steps.create(caller, requestLike(record, snapshot, name))
  } finally {
    if (from === undefined)
      await steps.drop(asking, snapshot).catch((error) =>
        options.logger('warn', `could not remove the snapshot of a fork: ${reasonOf(error)}`, {
          sandbox: id,
        }),
      )
  }
}

/** Everything but the disk comes from the sandbox's current record. */
function requestLike(
  record: SandboxRecord,
  snapshot: SnapshotRecord,
  name: string | undefined,
): CreateRequest {
  const { isolation, limits, environment, harnesses, credentials, container, mounts } = record.spec
  return {
    ...(name !== undefined && { name }),
    backend: record.backend,
    isolation,
    workspace: { mode: 'copy' },
    limits: limits as LimitSpec,
    environment,
    ...(harnesses.length > 0 && { harnesses: harnesses.map(harnessName) }),
    forkOf: record.id,
    // The user chose `forward` for one sandbox, and a copy of it does not inherit that.
    credentials: credentials === 'forward' ? 'none' : credentials,
    ...(container && {
      network: 'none',
      mounts: mounts.map((mount) => ({ ...mount, mode: 'read_only' })),
      container: { image: container.image, runtime: container.runtime, line: container.line },
    }),
    policyEnvelopeId: record.policy_envelope_id,
    ends: endsOf(record),
    from: snapshot.id,
  }
}

/** Two sandboxes in the same folder would not be isolated from each other. */
function requireOwnWorkspace({ name, spec }: SandboxRecord): void {
  if (spec.workspace.mode === 'copy') return
  throw new CraikError('conflict', `sandbox ${name} works in a host folder, which a fork cannot copy`, {
    hint: 'create a sandbox with a copy of the folder:  craik sandbox create --workspace FOLDER',
  })
}

function requireOf({ name, manifest }: SnapshotRecord, record: SandboxRecord): void {
  if (manifest.origin.sandbox_id === record.id) return
  throw new CraikError('conflict', `snapshot ${name} is not a snapshot of sandbox ${record.name}`, {
    hint: `create a sandbox from the snapshot:  craik sandbox create --from ${name}`,
  })
}
