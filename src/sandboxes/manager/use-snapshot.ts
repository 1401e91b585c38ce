/**
 * Turns a snapshot into a disk. The use is decided and recorded, and the digest is verified before anything uses the
 * disk.
 */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { UnpackReport } from '../../lib/safe-tar/unpack.ts'
import { isOwnImageName, type SandboxSpec } from '../backend.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { Begun } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { explainUnpackError, readArchive } from '../snapshots/archive.ts'
import { openArchive } from '../snapshots/snapshot-files.ts'
import { SNAPSHOT_LIMITS } from '../snapshots/snapshot-manifest.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { beginSnapshotAction, endSnapshotAction, type SnapshotAction } from '../snapshots/tokens.ts'
import type { ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { DISK_DEADLINE_MS, disksOf } from './take-snapshot.ts'

/** Throws when the action is denied. Then nothing was done. */
export async function beginAction(
  { store, log }: ManagerOptions,
  caller: ManagerCaller,
  snapshot: Pick<SnapshotRecord, 'id'>,
  action: SnapshotAction,
  about: { readonly sandboxId?: SandboxId; readonly metadata?: Record<string, string | boolean> } = {},
): Promise<Begun> {
  const answer = await store.write(beginSnapshotAction, {
    id: snapshot.id,
    action,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: log.owner,
    ...about,
  })
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  return answer.begun
}

/** The number of left-out entries that are named. */
const NAMED = 3

/**
 * Fills a new disk beside the current one; nothing uses it yet. Returns a description of what was left out, if
 * anything.
 */
export async function fillDisk(
  options: ManagerOptions,
  caller: ManagerCaller,
  snapshot: SnapshotRecord,
  spec: SandboxSpec,
  backend: SandboxRecord['backend'],
): Promise<string | undefined> {
  const { store, home } = options
  const { id, manifest } = snapshot
  // The grant that the request names is for the sandbox. The snapshot's own grant is looked up.
  const { grantId: _, ...asking } = caller
  const begun = await beginAction(options, asking, snapshot, 'use', { sandboxId: spec.id })
  const until = AbortSignal.any([caller.signal, AbortSignal.timeout(DISK_DEADLINE_MS)])
  try {
    const file = await openArchive(home.snapshots, id, manifest.archive.bytes)
    try {
      const archive = readArchive(file, manifest, until)
      const limits = { entries: SNAPSHOT_LIMITS.entries, bytes: manifest.content.bytes }
      const report = await disksOf(options, { backend })
        .write(spec, archive.content, { signal: until, limits })
        .catch(async (error) => {
          throw isMalformed(error) && !until.aborted
            ? await explainDamage(options, snapshot, error, until)
            : error
        })
      await archive.waitUntilVerified()
      const measures = [
        observedMeasure('content_bytes', report.bytes),
        observedMeasure('files', report.files),
        ...(report.skippedCount > 0 ? [observedMeasure('entries_left_out', report.skippedCount)] : []),
      ]
      await store.write(endSnapshotAction, { id, begun, action: 'use', status: 'passed', measures })
      return describeSkipped(report)
    } finally {
      await file.close().catch(() => {})
    }
  } catch (error) {
    const metadata = { error: error instanceof CraikError ? error.code : 'internal' }
    await store.write(endSnapshotAction, { id, begun, action: 'use', status: 'failed', metadata })
    throw error
  }
}

/** Names only the first entries and the reasons, because the text of a notice is limited. */
function describeSkipped({
  skipped,
  skippedCount,
}: Pick<UnpackReport, 'skipped' | 'skippedCount'>): string | undefined {
  if (skippedCount === 0) return undefined
  const named = skipped.slice(0, NAMED).map(({ path, reason }) => `${path} (${reason})`)
  const more = skippedCount - named.length
  const what = skippedCount === 1 ? '1 entry' : `${skippedCount.toLocaleString('en')} entries`
  return `left out ${what}: ${named.join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}

async function explainDamage(
  { home }: ManagerOptions,
  { id, name, manifest: { archive } }: SnapshotRecord,
  error: unknown,
  until: AbortSignal,
): Promise<unknown> {
  const file = await openArchive(home.snapshots, id, archive.bytes)
  try {
    return await explainUnpackError(error, file, { name, archive }, until)
  } finally {
    await file.close()
  }
}

function isMalformed(error: unknown): boolean {
  if (error instanceof CraikError) return error.code === 'boundary_failed' || error.code === 'too_large'
  return /^(ZSTD_|Z_)/.test(String((error as NodeJS.ErrnoException).code))
}

/** Throws unless the snapshot fits the sandbox: both must have the same backend, workspace mode and image. */
export function requireFit(
  { name, manifest }: SnapshotRecord,
  into: {
    readonly backend: SandboxRecord['backend']
    readonly workspace: 'copy' | 'in-place'
    readonly image: Image | undefined
  },
): void {
  const problem =
    manifest.backend !== into.backend
      ? `it comes from a ${manifest.backend} sandbox, and this is a ${into.backend} sandbox`
      : manifest.spec.workspace !== into.workspace
        ? `its workspace is ${describeWorkspace(manifest.spec.workspace)}, and the sandbox’s workspace is ${describeWorkspace(into.workspace)}`
        : manifest.image !== null && into.image !== undefined && !isSameImage(manifest.image, into.image)
          ? `it was created with the image ${manifest.image.name} (${manifest.image.id.slice(7, 19)}), and the sandbox uses another one`
          : undefined
  if (problem === undefined) return
  throw new CraikError('conflict', `snapshot ${name} does not fit: ${problem}`, {
    hint: `create a new sandbox from the snapshot:  craik sandbox create --from ${name}`,
  })
}

interface Image {
  readonly id: string
  readonly name: string
}

/** A Craik image that was rebuilt because the engine lost it has another id, but the same contents. */
function isSameImage(one: Image, other: Image): boolean {
  return one.id === other.id || (one.name === other.name && isOwnImageName(one.name))
}

function describeWorkspace(workspace: 'copy' | 'in-place'): string {
  return workspace === 'copy' ? 'a copy' : 'a host folder'
}
