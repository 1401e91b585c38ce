/**
 * Stores the changes of a run: the contents, fetched over the boundary and hashed on the host, and the old contents for
 * the patch.
 */
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Home } from '../../store/home.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import {
  changeSetFolder,
  contentsIn,
  type State,
  type StoredChange,
  type StoredChangeSet,
  writeRecord,
} from './change-set.ts'
import type { ContentStore } from './content-store.ts'
import { fetchContents } from './fetch.ts'
import { type ApplicableEntry, type Change, type FileChanges, SkippedList } from './file-changes.ts'
import { HostTree } from './host-tree.ts'
import type { WorkspaceRunner } from './workspace-runner.ts'

export interface StoreInput {
  readonly home: Home
  readonly runId: string
  readonly sandboxId: string
  readonly operator: string
  /** The real path of the copied folder on the host, without links. */
  readonly workspace: string
  readonly nowMs: number
}

/** Stores a change set completely or not at all. A second call for the same run replaces the first. */
export async function storeChangeSet(
  input: StoreInput,
  inside: WorkspaceRunner,
  { changes, left, leftCount }: FileChanges,
  until: AbortSignal,
): Promise<StoredChangeSet> {
  const { home, runId, sandboxId, operator, workspace, nowMs } = input
  const folder = changeSetFolder(home, runId)
  for (const [path, label] of [
    [home.runs, 'runs folder'],
    [folder, 'run folder'],
  ] as const)
    ensurePrivateFolder(path, label)
  const contents = contentsIn(folder)
  contents.create()
  const leftOut = new SkippedList()
  const stored = await fetchAll(inside, contents, changes, leftOut, until)
  await storeReplaced(workspace, contents, stored, until)
  const more = leftOut.report()
  const record = writeRecord(folder, {
    schema: 'craik.run_changes',
    version: 1,
    run_id: runId,
    sandbox_id: sandboxId,
    operator_subject: operator,
    workspace,
    kept_at: new Date(nowMs).toISOString(),
    changes: stored,
    left: [...left, ...more.left].slice(0, CHANGE_LIMITS.named),
    left_count: leftCount + more.leftCount,
  })
  contents.sweep(new Set(stored.flatMap(({ before, after }) => [digestOf(before), digestOf(after)])))
  return record
}

async function fetchAll(
  inside: WorkspaceRunner,
  contents: ContentStore,
  changes: readonly Change[],
  left: SkippedList,
  until: AbortSignal,
): Promise<StoredChange[]> {
  const fetched = new Map<string, State>()
  const wanted: Change[] = []
  let announced = 0
  for (const change of changes) {
    if (!needsContent(change)) continue
    const { bytes } = change.after
    if (announced + bytes > CHANGE_LIMITS.keptBytes) {
      left.add(change.path, 'the changes exceed the limit for one run')
      continue
    }
    announced += bytes
    wanted.push(change)
  }
  const take = async (index: number, content: Buffer | undefined) => {
    const { path, after } = wanted[index]!
    if (content === undefined) return left.add(path, 'it changed while Craik read it')
    const executable = after?.kind === 'file' && after.executable
    // Only the received content counts, whatever the sandbox announced.
    const digest = contents.put(content)
    fetched.set(path, { kind: 'file', digest, bytes: content.length, executable })
  }
  await fetchContents(
    inside,
    wanted.map(({ path }) => path),
    take,
    until,
  )
  return changes.flatMap((change) => {
    const after = needsContent(change) ? fetched.get(change.path) : entryState(change.after)
    return after === undefined ? [] : [{ path: change.path, before: entryState(change.before), after }]
  })
}

/** Returns whether the file is new or has another content than before. */
function needsContent(
  change: Change,
): change is Change & { readonly after: Extract<ApplicableEntry, { kind: 'file' }> } {
  const { before, after } = change
  return after?.kind === 'file' && (before?.kind !== 'file' || before.digest !== after.digest)
}

/**
 * Stores old contents, so that the patch still works after the original files change. Skips files that have already
 * changed.
 */
async function storeReplaced(
  workspace: string,
  contents: ContentStore,
  changes: readonly StoredChange[],
  until: AbortSignal,
): Promise<void> {
  await using tree = await HostTree.open(workspace)
  let keptBytes = 0
  for (const { path, before, after } of changes) {
    until.throwIfAborted()
    if (before?.kind !== 'file' || digestOf(after) === before.digest) continue
    if (keptBytes + before.bytes > CHANGE_LIMITS.keptBytes) continue
    const seen = await tree.look(path, [before.bytes])
    const content =
      seen.kind === 'file' && seen.digest === before.digest ? await tree.read(path, before.bytes) : undefined
    if (content === undefined) continue
    keptBytes += content.length
    contents.put(content)
  }
}

export function entryState(entry: ApplicableEntry | null): State | null {
  if (entry === null || entry.kind === 'link') return entry
  const { kind, digest, bytes, executable } = entry
  return { kind, digest, bytes, executable }
}

function digestOf(state: State | null): string {
  return state?.kind === 'file' ? state.digest : ''
}
