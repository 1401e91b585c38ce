/** Lists, shows, deletes, exports and imports snapshots. */
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { CraikError } from '../../errors.ts'
import { newId, type SnapshotId } from '../../lib/ids.ts'
import { parseInput } from '../../policy/decision-request.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { isDamage } from '../lifecycle/sandbox-record.ts'
import type {
  ImportRequest,
  ManagedSnapshots,
  ManagerCaller,
  OpenedSnapshot,
  SnapshotView,
} from '../manager-types.ts'
import { copyArchive, examineArchive, readArchive } from '../snapshots/archive.ts'
import { bundleOf, readBundle, translateBundleError } from '../snapshots/bundle.ts'
import { getSnapshot, listSnapshots } from '../snapshots/read-snapshots.ts'
import {
  beginSnapshotFiles,
  openArchive,
  type PartialSnapshot,
  removeSnapshotFiles,
  sweepSnapshotFiles,
} from '../snapshots/snapshot-files.ts'
import {
  formatManifest,
  invalidSnapshotError,
  manifestDigest,
  manifestSchema,
  SNAPSHOT_ID,
  type SnapshotManifest,
} from '../snapshots/snapshot-manifest.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import {
  beginDeleteDamagedSnapshot,
  beginImport,
  endDeleteDamagedSnapshot,
  endImport,
  endSnapshotAction,
} from '../snapshots/tokens.ts'
import { snapshotLimits } from './create-from-snapshot.ts'
import { exportSnapshot } from './export-snapshot.ts'
import type { ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { DISK_DEADLINE_MS, dropUnlisted } from './take-snapshot.ts'
import { reasonOf, transitionError } from './transition.ts'
import { beginAction } from './use-snapshot.ts'

/** `whole` makes the manager wait for the work when it closes. */
export function createManagedSnapshots(
  options: ManagerOptions,
  whole: <T>(work: Promise<T>) => Promise<T>,
  whileHere: (caller: ManagerCaller) => ManagerCaller,
): ManagedSnapshots {
  return {
    async list() {
      return (await listSnapshots(options)).map((listed) => {
        if (listed.record !== undefined) return snapshotView(listed.record)
        const { id, problem } = listed
        options.logger('error', problem, { snapshot: id })
        return { id, name: id, state: 'damaged' as const, notice: problem }
      })
    },
    get: async (idOrName) => snapshotView(await getSnapshot(options, idOrName)),
    async delete(caller, idOrName) {
      try {
        const record = await getSnapshot(options, idOrName)
        await whole(deleteSnapshot(options, caller, record))
        return record.id
      } catch (error) {
        // The name comes from the damaged record, so it does not reliably find the snapshot.
        if (!isDamage(error) || !SNAPSHOT_ID.test(idOrName)) throw error
        const id = idOrName as SnapshotId
        await whole(deleteDamagedSnapshot(options, caller, id))
        return id
      }
    },
    open: (caller, idOrName) => whole(openSnapshot(options, caller, idOrName)),
    export: (caller, idOrName, request) =>
      whole(exportSnapshot(options, whileHere(caller), idOrName, request)),
    import: async (caller, body, request) =>
      snapshotView(await whole(importSnapshot(options, whileHere(caller), body, request))),
  }
}

export async function deleteSnapshot(
  options: ManagerOptions,
  caller: ManagerCaller,
  record: SnapshotRecord,
): Promise<void> {
  const { id } = record
  const begun = await beginAction(options, caller, record, 'delete')
  try {
    await removeSnapshotFiles(options.home.snapshots, id)
  } catch (error) {
    await options.store.write(endSnapshotAction, { id, begun, action: 'delete', status: 'failed' })
    throw transitionError(error, `snapshot ${record.name} could not be removed`)
  }
  await options.store.write(endSnapshotAction, { id, begun, action: 'delete', status: 'passed' })
}

/** Finds the files by the id, because nothing else about the snapshot is reliable. */
async function deleteDamagedSnapshot(
  options: ManagerOptions,
  caller: ManagerCaller,
  id: SnapshotId,
): Promise<void> {
  const { store, log, home } = options
  const answer = await store.write(beginDeleteDamagedSnapshot, {
    id,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: log.owner,
  })
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  const { begun } = answer
  try {
    await removeSnapshotFiles(home.snapshots, id)
  } catch (error) {
    await store.write(endDeleteDamagedSnapshot, { id, begun, status: 'failed' })
    throw transitionError(error, `snapshot ${id} could not be removed`)
  }
  await store.write(endDeleteDamagedSnapshot, { id, begun, status: 'passed' })
}

/** Opens a snapshot for reading. The end of the export is recorded when the stream has ended. */
async function openSnapshot(
  options: ManagerOptions,
  caller: ManagerCaller,
  idOrName: string,
): Promise<OpenedSnapshot> {
  const record = await getSnapshot(options, idOrName)
  const { id, manifest } = record
  const begun = await beginAction(options, caller, record, 'export', { metadata: { destination: 'client' } })
  const endExport = (status: 'passed' | 'failed') =>
    options.store.write(endSnapshotAction, {
      id,
      begun,
      action: 'export',
      status,
      ...(status === 'passed' && { measures: [observedMeasure('bytes_out', bundleBytes)] }),
    })
  let bundleBytes = 0
  try {
    const file = await openArchive(options.home.snapshots, id, manifest.archive.bytes)
    const bundle = bundleOf(manifest, file)
    bundleBytes = bundle.bytes
    const body = bundle.open()
    void finished(body)
      .then(
        () => endExport('passed'),
        () => endExport('failed'),
      )
      .catch((error) => options.logger('error', `could not record the end of an export: ${reasonOf(error)}`))
      .finally(() => file.close().catch(() => {}))
    return { view: snapshotView(record), bytes: bundle.bytes, body }
  } catch (error) {
    await endExport('failed')
    throw error
  }
}

/**
 * Imports a snapshot. Its files are written beside the others, hashed, examined and compared with the manifest before
 * they get their name.
 */
async function importSnapshot(
  options: ManagerOptions,
  caller: ManagerCaller,
  body: Readable,
  request: ImportRequest,
): Promise<SnapshotRecord> {
  const { store, log, clock, home } = options
  if (request.name !== undefined)
    parseInput(manifestSchema.shape.name, request.name, 'the name of the snapshot')
  const answer = await store.write(beginImport, {
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: log.owner,
  })
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  const { begun } = answer
  const id = newId<SnapshotId>('snap', clock.nowMs())
  const until = AbortSignal.any([caller.signal, AbortSignal.timeout(DISK_DEADLINE_MS)])
  let files: PartialSnapshot | undefined
  try {
    files = await beginSnapshotFiles(home.snapshots, id)
    const manifest = await receiveBundle(files, body, request, until)
    await files.publish(formatManifest(manifest))
    const record = await store.write(endImport, {
      begun,
      status: 'passed',
      id,
      name: request.name ?? manifest.name,
      manifest,
      measures: [
        observedMeasure('archive_bytes', manifest.archive.bytes),
        observedMeasure('content_bytes', manifest.content.bytes),
      ],
    })
    return record!
  } catch (error) {
    body.destroy()
    if (files !== undefined) await dropUnlisted(options, files, id)
    const metadata = { error: error instanceof CraikError ? error.code : 'internal' }
    await store.write(endImport, { begun, status: 'failed', metadata })
    throw error
  }
}

async function receiveBundle(
  files: PartialSnapshot,
  body: Readable,
  { digest }: ImportRequest,
  until: AbortSignal,
): Promise<SnapshotManifest> {
  const manifest = await readBundle(body, until, async (found, archive) => {
    if (digest !== undefined && manifestDigest(found) !== digest)
      throw invalidSnapshotError(`its digest is ${manifestDigest(found)}, which is not the requested one`)
    const { sha256 } = await copyArchive(files.archive, archive, until)
    if (sha256 !== found.archive.sha256) throw invalidSnapshotError('its disk does not match its digest')
  })
  await examine(files.archive, manifest, until)
  return manifest
}

/** Examines the archive in a second pass, after its digest was verified. */
async function examine(path: string, manifest: SnapshotManifest, until: AbortSignal): Promise<void> {
  const file = await open(path)
  try {
    const archive = readArchive(file, manifest, until)
    await examineArchive(archive.content, manifest, until)
    await archive.waitUntilVerified()
  } catch (error) {
    if (until.aborted) throw until.reason
    const found = translateBundleError(error)
    throw found instanceof CraikError ? found : invalidSnapshotError('its disk cannot be decompressed', error)
  } finally {
    await file.close().catch(() => {})
  }
}

/**
 * Runs once, before the manager creates anything. It removes what a dead process left, and snapshots that were taken
 * only for a fork.
 */
export async function recoverSnapshots(options: ManagerOptions): Promise<void> {
  const listed = await listSnapshots(options)
  const known = new Set(listed.map(({ id }) => id))
  const swept = await sweepSnapshotFiles(options.home.snapshots, (id) => known.has(id)).catch((error) => {
    options.logger('warn', `could not remove a partial snapshot: ${reasonOf(error)}`)
    return []
  })
  for (const name of swept)
    options.logger('info', 'removed an unfinished snapshot', {
      snapshot: name,
    })
  for (const { record } of listed) {
    if (record?.manifest.created_by !== 'auto' || record.imported) continue
    const caller = { operator: record.operator, signal: AbortSignal.timeout(DISK_DEADLINE_MS) }
    await deleteSnapshot(options, caller, record)
  }
}

export function snapshotView(record: SnapshotRecord): SnapshotView {
  const { id, name, digest, manifest, imported, operator, policy_envelope_id, created_at_ms } = record
  const { backend, image, spec, content, archive, origin, created_by } = manifest
  return {
    id,
    name,
    digest,
    createdAtMs: imported ? created_at_ms : manifest.created_at_ms,
    createdBy: imported ? 'user' : created_by,
    imported,
    operator,
    policyEnvelopeId: policy_envelope_id,
    origin: { sandboxId: origin.sandbox_id, name: origin.name },
    backend,
    image,
    isolation: spec.isolation,
    workspace: spec.workspace,
    limits: snapshotLimits(spec),
    variables: Object.keys(spec.environment).sort(),
    content,
    archiveBytes: archive.bytes,
  }
}
