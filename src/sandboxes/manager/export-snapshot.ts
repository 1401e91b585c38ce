/**
 * Sends a snapshot to a destination outside this host. Policy decides first, and the receipts record the destination
 * and the size.
 */
import { CraikError } from '../../errors.ts'
import type { Exported, ExportRequest, ManagerCaller } from '../manager-types.ts'
import { bundleOf } from '../snapshots/bundle.ts'
import { type ExportDestination, parseDestination } from '../snapshots/export/destination.ts'
import type { SigningKeys } from '../snapshots/export/sigv4.ts'
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import { openArchive } from '../snapshots/snapshot-files.ts'
import { endSnapshotAction } from '../snapshots/tokens.ts'
import type { ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { DISK_DEADLINE_MS } from './take-snapshot.ts'
import { beginAction } from './use-snapshot.ts'

export async function exportSnapshot(
  options: ManagerOptions,
  caller: ManagerCaller,
  idOrName: string,
  request: ExportRequest,
): Promise<Exported> {
  const destination = parseDestination(request)
  const allowPrivate = request.allowPrivateAddress === true
  const record = await getSnapshot(options, idOrName)
  const { id, manifest, digest } = record
  const { host } = destination
  const begun = await beginAction(options, caller, record, 'export', {
    metadata: {
      destination: destination.kind,
      host: host.replaceAll(':', '-'),
      ...(allowPrivate && { allow_private_address: true }),
      ...(destination.kind === 's3' && { secret_ref: destination.secretKeyRef }),
    },
  })
  const until = AbortSignal.any([caller.signal, AbortSignal.timeout(DISK_DEADLINE_MS)])
  try {
    const keys = await keysOf(options, destination, until)
    // Loaded only for an export, because it loads a whole client.
    const { putFile } = await import('../snapshots/export/put-file.ts')
    const file = await openArchive(options.home.snapshots, id, manifest.archive.bytes)
    let bytes: number
    try {
      const bundle = bundleOf(manifest, file)
      bytes = bundle.bytes
      const now = new Date(options.clock.nowMs())
      await putFile(destination, bundle, { allowPrivate, now, until, ...(keys && { keys }) })
    } finally {
      await file.close().catch(() => {})
    }
    const measures = [observedMeasure('bytes_out', bytes)]
    await options.store.write(endSnapshotAction, { id, begun, action: 'export', status: 'passed', measures })
    return { host, bytes, digest, receiptId: begun.id }
  } catch (error) {
    const metadata = { error: error instanceof CraikError ? error.code : 'internal' }
    const isCertain = error instanceof CraikError && error.details?.reason === 'private_address'
    const status = isCertain ? 'failed' : 'indeterminate'
    await options.store.write(endSnapshotAction, { id, begun, action: 'export', status, metadata })
    throw error
  }
}

async function keysOf(
  { readSecret }: ManagerOptions,
  destination: ExportDestination,
  until: AbortSignal,
): Promise<SigningKeys | undefined> {
  if (destination.kind !== 's3') return undefined
  if (readSecret === undefined) throw new CraikError('unavailable', 'the secret store is not available')
  const read = async (name: string) => {
    const value = await readSecret(name, until)
    try {
      return value.toString('utf8').trim()
    } finally {
      value.fill(0)
    }
  }
  const { accessKeyRef, secretKeyRef, sessionTokenRef } = destination
  return {
    accessKeyId: await read(accessKeyRef),
    secretKey: await read(secretKeyRef),
    sessionToken: sessionTokenRef === undefined ? undefined : await read(sessionTokenRef),
  }
}
