/** Keeps what a run changed: contents fetched over the boundary and hashed here, and what they replace, for the patch. */
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Home } from '../../store/home.ts'
import {
  changeSetFolder,
  contentsIn,
  type State,
  type StoredChange,
  type StoredChangeSet,
  writeRecord,
} from './change-set.ts'
import { type Bringable, type Change, type FileChanges, LeftList } from './compare.ts'
import type { ContentStore } from './content-store.ts'
import { fetchContents } from './fetch.ts'
import { HostTree } from './host-tree.ts'
import type { WorkspaceInside } from './inside.ts'
import { CHANGE_LIMITS } from './limits.ts'

export interface KeepInput {
  readonly home: Home
  readonly runId: string
  readonly sandboxId: string
  readonly operator: string
  /** The folder on this machine that was copied, without any link in its path. */
  readonly workspace: string
  readonly nowMs: number
}

/** Whole or not at all; done again for the same run, it takes the place of what was kept before. */
export async function keepChanges(
  input: KeepInput,
  inside: WorkspaceInside,
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
  const leftOut = new LeftList()
  const kept = await fetchAll(inside, contents, changes, leftOut, until)
  await keepReplaced(workspace, contents, kept, until)
  const more = leftOut.report()
  const record = writeRecord(folder, {
    schema: 'craik.run_changes',
    version: 1,
    run_id: runId,
    sandbox_id: sandboxId,
    operator_subject: operator,
    workspace,
    kept_at: new Date(nowMs).toISOString(),
    changes: kept,
    left: [...left, ...more.left].slice(0, CHANGE_LIMITS.named),
    left_count: leftCount + more.leftCount,
  })
  contents.sweep(new Set(kept.flatMap(({ before, after }) => [digestOf(before), digestOf(after)])))
  return record
}

async function fetchAll(
  inside: WorkspaceInside,
  contents: ContentStore,
  changes: readonly Change[],
  left: LeftList,
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
    // What arrived is what counts, whatever was said of it.
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

/** A file that is new or has another content than before. */
function needsContent(
  change: Change,
): change is Change & { readonly after: Extract<Bringable, { kind: 'file' }> } {
  const { before, after } = change
  return after?.kind === 'file' && (before?.kind !== 'file' || before.digest !== after.digest)
}

/** So that the patch can be shown also when the files here have changed. Those that have already are left alone. */
async function keepReplaced(
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

export function entryState(entry: Bringable | null): State | null {
  if (entry === null || entry.kind === 'link') return entry
  const { kind, digest, bytes, executable } = entry
  return { kind, digest, bytes, executable }
}

function digestOf(state: State | null): string {
  return state?.kind === 'file' ? state.digest : ''
}
