/** Finds stored change sets that nobody needs, and removes them permanently. */
import { lstatSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { ownerState } from '../../lib/owner.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { getPromptRun } from '../prompts/runs.ts'
import { LOCK } from './apply-changes.ts'
import {
  changeSetFolder,
  isMarkedApplied,
  RECORD,
  readChangeSet,
  type StoredChangeSet,
} from './change-set.ts'
import { HostTree } from './host-tree.ts'
import { planChange, viewPath } from './plan-changes.ts'

export interface PruneDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly operator: string
}

export interface ChangeSetFolder {
  readonly runId: string
  readonly sandboxId: string | undefined
  /** The digest of the record of changes, if there is one. */
  readonly digest: string | undefined
  readonly bytes: number
  readonly why: string
  /** True when everything in it also exists elsewhere. */
  readonly isSpare: boolean
}

/** Yields the operator's own folders, except those of running runs. */
export async function* listChangeSetFolders(
  deps: PruneDeps,
  until: AbortSignal,
): AsyncGenerator<ChangeSetFolder> {
  for (const name of foldersIn(deps.home.runs)) {
    until.throwIfAborted()
    const found = await inspectFolder(deps, name, until)
    if (found !== undefined) yield found
  }
}

/** Writes the receipt first. Returns false while the changes are being applied. */
export async function removeChangeSet(
  { log, home, operator }: PruneDeps,
  { runId, sandboxId, digest, isSpare }: ChangeSetFolder,
): Promise<boolean> {
  const folder = changeSetFolder(home, runId)
  const lock = takeFileLock(join(folder, LOCK), 'run lock')
  if (lock === undefined) return false
  try {
    await log.append({
      kind: 'environment_decision',
      status: 'passed',
      operator,
      capability: 'agent.run',
      operation: 'prune',
      target: runId,
      links: { run_id: runId, ...(sandboxId !== undefined && { sandbox_id: sandboxId }) },
      ...(digest !== undefined && { digests: { changes: digest } }),
      metadata: { spare: isSpare },
    })
    // Removes the record first, so that an incomplete removal is never taken for a complete change set.
    rmSync(join(folder, RECORD), { force: true })
    rmSync(folder, { recursive: true, force: true })
  } finally {
    lock.release()
  }
  return true
}

function foldersIn(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? [one.name] : []))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

async function inspectFolder(
  deps: PruneDeps,
  runId: string,
  until: AbortSignal,
): Promise<ChangeSetFolder | undefined> {
  const { store, home, operator } = deps
  const run = await unless(getPromptRun(deps, operator, runId), ['not_found', 'tampered'])
  if (run?.status === 'running' && ownerState(run.owner) !== 'dead') return undefined
  let isDamaged = false
  const changeSet = await unless(readChangeSet(home, runId), ['not_found', 'store_damaged'], ({ code }) => {
    isDamaged = code === 'store_damaged'
  })
  if ((changeSet?.record.operator_subject ?? run?.operator_subject) !== operator) return undefined
  const sandboxId = changeSet?.record.sandbox_id ?? run?.sandbox_id
  const common = { runId, sandboxId, digest: changeSet?.digest, bytes: bytesIn(changeSetFolder(home, runId)) }
  if (isDamaged) return { ...common, why: 'the record of its changes is unreadable', isSpare: false }
  if (changeSet !== undefined) return { ...common, ...(await classify(changeSet, until)) }
  const row = sandboxId && (await store.read((tables) => tables.sandboxes.get(sandboxId)))
  return row
    ? { ...common, why: 'it was interrupted, and its sandbox still exists', isSpare: false }
    : { ...common, why: 'it was interrupted, and its sandbox no longer exists', isSpare: true }
}

async function classify(
  changeSet: StoredChangeSet,
  until: AbortSignal,
): Promise<Pick<ChangeSetFolder, 'why' | 'isSpare'>> {
  if (changeSet.record.changes.length === 0) return { why: 'it changed nothing', isSpare: true }
  const missing = isMarkedApplied(changeSet) ? 0 : await notThere(changeSet, until)
  if (missing === 0) return { why: 'all changes were applied', isSpare: true }
  const files = missing === 1 ? '1 file was' : `${missing.toLocaleString('en')} files were`
  return { why: `${files} not applied`, isSpare: false }
}

/** Returns the number of changes that the original folder does not have. */
async function notThere({ record }: StoredChangeSet, until: AbortSignal): Promise<number> {
  const { changes, workspace } = record
  let tree: HostTree
  try {
    tree = await HostTree.open(workspace)
  } catch {
    return changes.length
  }
  await using _ = tree
  let missing = 0
  for (const change of changes) {
    until.throwIfAborted()
    if (planChange(change, await viewPath(tree, change)).status !== 'already') missing++
  }
  return missing
}

/** Returns `undefined` when it fails with one of these codes. */
async function unless<T>(
  found: Promise<T>,
  codes: readonly ErrorCode[],
  onMissing: (error: CraikError) => void = () => {},
): Promise<T | undefined> {
  try {
    return await found
  } catch (error) {
    if (!(error instanceof CraikError && codes.includes(error.code))) throw error
    onMissing(error)
    return undefined
  }
}

/** Includes folders but does not follow links. Node's own recursion follows them. */
function bytesIn(folder: string): number {
  let bytes = 0
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (entry.isDirectory()) bytes += bytesIn(path)
  }
  return bytes
}
