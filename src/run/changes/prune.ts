/** What is kept of runs and nobody needs any more: found, and removed for good. */
import { lstatSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { takeFileLock } from '../../lib/file-lock.ts'
import { ownerState } from '../../lib/owner.ts'
import type { ReceiptLog } from '../../receipts/log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { getPromptRun } from '../prompts/runs.ts'
import { LOCK } from './apply.ts'
import {
  changeSetFolder,
  isMarkedApplied,
  RECORD,
  readChangeSet,
  type StoredChangeSet,
} from './change-set.ts'
import { HostTree } from './host-tree.ts'
import { lookFor, planChange } from './plan.ts'

export interface PruneDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly operator: string
}

export interface ChangeSetFolder {
  readonly runId: string
  readonly sandboxId: string | undefined
  /** Of the record of its changes, where there is one. */
  readonly digest: string | undefined
  readonly bytes: number
  readonly why: string
  /** Nothing is lost with it that is not somewhere else. */
  readonly isSpare: boolean
}

/** Of the operator's own, without those that go on. */
export async function* keptRunFolders(place: PruneDeps, until: AbortSignal): AsyncGenerator<ChangeSetFolder> {
  for (const name of foldersIn(place.home.runs)) {
    until.throwIfAborted()
    const found = await lookAt(place, name, until)
    if (found !== undefined) yield found
  }
}

/** On record first. False: its changes are being brought over right now. */
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
    // First what names the rest: half of it is never taken for all.
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

async function lookAt(
  place: PruneDeps,
  runId: string,
  until: AbortSignal,
): Promise<ChangeSetFolder | undefined> {
  const { store, home, operator } = place
  const run = await unless(getPromptRun(place, operator, runId), ['not_found', 'tampered'])
  if (run?.status === 'running' && ownerState(run.owner) !== 'dead') return undefined
  let isDamaged = false
  const kept = await unless(readChangeSet(home, runId), ['not_found', 'store_damaged'], ({ code }) => {
    isDamaged = code === 'store_damaged'
  })
  if ((kept?.record.operator_subject ?? run?.operator_subject) !== operator) return undefined
  const sandboxId = kept?.record.sandbox_id ?? run?.sandbox_id
  const common = { runId, sandboxId, digest: kept?.digest, bytes: bytesIn(changeSetFolder(home, runId)) }
  if (isDamaged) return { ...common, why: 'the record of its changes is unreadable', isSpare: false }
  if (kept !== undefined) return { ...common, ...(await judged(kept, until)) }
  const row = sandboxId && (await store.read((tables) => tables.sandboxes.get(sandboxId)))
  return row
    ? { ...common, why: 'it was interrupted, and its sandbox still exists', isSpare: false }
    : { ...common, why: 'it was interrupted, and its sandbox no longer exists', isSpare: true }
}

async function judged(
  kept: StoredChangeSet,
  until: AbortSignal,
): Promise<Pick<ChangeSetFolder, 'why' | 'isSpare'>> {
  if (kept.record.changes.length === 0) return { why: 'it changed nothing', isSpare: true }
  const missing = isMarkedApplied(kept) ? 0 : await notThere(kept, until)
  if (missing === 0) return { why: 'all changes were applied', isSpare: true }
  const files = missing === 1 ? '1 file was' : `${missing.toLocaleString('en')} files were`
  return { why: `${files} not applied`, isSpare: false }
}

/** How many of its changes the folder here does not have. */
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
    if (planChange(change, await lookFor(tree, change)).status !== 'already') missing++
  }
  return missing
}

/** Undefined when it fails with one of these. */
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

/** With folders below it, and without following links, which Node's own recursion does. */
function bytesIn(folder: string): number {
  let bytes = 0
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
    if (entry.isDirectory()) bytes += bytesIn(path)
  }
  return bytes
}
