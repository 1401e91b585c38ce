/** Takes a snapshot of a sandbox: archives its disk and pins what it is made of, completely or not at all. */
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId, type SnapshotId } from '../../lib/ids.ts'
import { parseInput, refuseSecrets } from '../../policy/decision-request.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { ManagerCaller, SnapshotRequest } from '../manager-types.ts'
import type { SandboxDisks } from '../sandbox-disks.ts'
import { type WrittenArchive, writeArchive } from '../snapshots/archive.ts'
import { isCredentialPath } from '../snapshots/credential-paths.ts'
import { beginSnapshotFiles, type PartialSnapshot } from '../snapshots/snapshot-files.ts'
import {
  formatManifest,
  manifestSchema,
  SNAPSHOT_LIMITS,
  type SnapshotManifest,
} from '../snapshots/snapshot-manifest.ts'
import { nameTakenError } from '../snapshots/snapshot-procedures.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { endSnapshot } from '../snapshots/tokens.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { beginTransitionOf, endTransitionOf, reasonOf, transitionError } from './transition.ts'

/** Enough for the largest disk on the slowest host. An operation that takes longer does not end. */
export const DISK_DEADLINE_MS = 6 * 3600_000

export async function snapshotSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  caller: ManagerCaller,
  id: SandboxId,
  { name, createdBy = 'user' }: SnapshotRequest & { readonly createdBy?: SnapshotManifest['created_by'] },
): Promise<SnapshotRecord> {
  const { clock, home, store } = options
  if (name !== undefined) await requireFreeName(options, name)
  const snapshotId = newId<SnapshotId>('snap', clock.nowMs())
  const answer = await beginTransitionOf(options, caller, id, {
    verb: 'snapshot',
    metadata: { snapshot: snapshotId, created_by: createdBy },
  })
  if (answer.effect === 'already') throw new CraikError('internal', 'a snapshot cannot already be done')
  const { record } = answer
  const beganAtMs = clock.nowMs()
  const until = AbortSignal.any([caller.signal, AbortSignal.timeout(DISK_DEADLINE_MS)])
  let files: PartialSnapshot | undefined
  try {
    files = await beginSnapshotFiles(home.snapshots, snapshotId)
    const { content, archive } = await readDisk(options, registry, record, files, until)
    const manifest = manifestSchema.parse({
      format: 'craik.snapshot/1',
      id: snapshotId,
      name: name ?? `${record.name.slice(0, 57)}-${snapshotId.slice(-6).toLowerCase()}`,
      created_at_ms: beganAtMs,
      created_by: createdBy,
      origin: { sandbox_id: record.id, name: record.name },
      backend: record.backend,
      ...pinnedParts(record),
      content,
      archive: { compression: 'zstd', ...archive },
    } satisfies SnapshotManifest)
    await files.publish(formatManifest(manifest))
    const stored = await store.write(endSnapshot, {
      id,
      manifest,
      operator: caller.operator,
      measures: [
        observedMeasure('duration_ms', clock.nowMs() - beganAtMs),
        observedMeasure('content_bytes', content.bytes),
        observedMeasure('archive_bytes', archive.bytes),
      ],
    })
    registry.get(id)?.session.events.add('snapshotted', { message: stored.name })
    return stored
  } catch (error) {
    if (files !== undefined) await dropUnlisted(options, files, snapshotId)
    await endTransitionOf(options, registry, { id, status: 'failed' })
    throw transitionError(error, `sandbox ${record.name} could not be snapshotted`)
  }
}

/**
 * Removes files that no record names. Files with a record stay, even if the confirmation of its write was lost. The
 * next process removes the rest.
 */
export async function dropUnlisted(
  { store, logger }: ManagerOptions,
  files: PartialSnapshot,
  id: SnapshotId,
): Promise<void> {
  try {
    if ((await store.read((tables) => tables.snapshots.get(id))) === undefined) await files.drop()
  } catch (error) {
    logger('warn', `could not remove a partial snapshot: ${reasonOf(error)}`, { snapshot: id })
  }
}

async function requireFreeName({ store }: ManagerOptions, name: string): Promise<void> {
  parseInput(manifestSchema.shape.name, name, 'the name of the snapshot')
  if (/^snap_/i.test(name))
    throw new CraikError(
      'usage',
      `the name ${JSON.stringify(name)} begins with snap_, as ids of snapshots do`,
      {
        hint: 'choose another --name',
      },
    )
  refuseSecrets({ name }, 'the snapshot')
  const taken = await store.read((tables) => tables.snapshots.list({ name }, 1))
  if (taken.length > 0) throw nameTakenError(name)
}

/**
 * Archives the disk. Running processes are frozen meanwhile, where that is possible. Otherwise the manifest says that
 * they were not.
 */
async function readDisk(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  files: PartialSnapshot,
  until: AbortSignal,
): Promise<{ readonly content: SnapshotManifest['content']; readonly archive: WrittenArchive }> {
  const disks = disksOf(options, record)
  const from = record.pending?.from
  const active = registry.get(record.id)
  const running = from === 'running' || from === 'paused' ? registry.handleOf(record) : undefined
  const instance = from === 'running' ? active?.session.instance : undefined
  const pauses = active !== undefined && instance?.pause !== undefined
  const limits = {
    entries: SNAPSHOT_LIMITS.entries,
    bytes: Math.min(record.spec.limits.diskBytes ?? Number.POSITIVE_INFINITY, SNAPSHOT_LIMITS.contentBytes),
  }
  try {
    if (pauses) {
      active.paused = true
      await instance!.pause!()
    }
    const packing = await disks.read(registry.specOf(record), running, {
      signal: until,
      limits,
      exclude: isCredentialPath,
    })
    try {
      const archive = await writeArchive(files.archive, packing.archive, until)
      const { files: count, folders, links, announcedBytes, changed, ...left } = packing.report()
      const still = from !== 'running' || pauses
      const content = {
        files: count,
        folders,
        links,
        bytes: announcedBytes,
        skipped: left.skippedCount,
        ...(left.skippedCount > 0 && { skipped_for: [...left.skippedFor] }),
        still,
      }
      return { content: { ...content, changed: changed.length }, archive }
    } finally {
      await packing.finish()
    }
  } finally {
    if (pauses) {
      await instance!.unpause?.()
      active.paused = false
    }
  }
}

export function disksOf(
  { backends }: ManagerOptions,
  { backend }: Pick<SandboxRecord, 'backend'>,
): SandboxDisks {
  const { disks } = requireBackend(backends, backend)
  if (disks !== undefined) return disks
  throw new CraikError('unavailable', `the ${backend} backend cannot archive the disks of sandboxes`)
}

function pinnedParts({ spec }: SandboxRecord): Pick<SnapshotManifest, 'image' | 'spec'> {
  const { isolation, workspace, limits, environment, container } = spec
  return {
    image: container && { id: container.image, name: container.imageName },
    spec: {
      isolation,
      workspace: workspace.mode,
      limits: {
        memory_bytes: limits.memoryBytes,
        processes: limits.processes,
        ...(limits.cpuMillis !== undefined && { cpu_millis: limits.cpuMillis }),
        ...(limits.diskBytes !== undefined && { disk_bytes: limits.diskBytes }),
      },
      environment,
      runtime: container?.runtime ?? null,
      line: container?.line ?? null,
    },
  }
}
