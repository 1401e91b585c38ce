/** Decides what happens to each change in the current workspace. Writes nothing. */
import { posix } from 'node:path'
import { findHeldBack, REPOSITORY_FILE, REPOSITORY_MARKER } from '../../sandboxes/unsafe-paths.ts'
import { foldersOf } from './change-paths.ts'
import type { State, StoredChange, StoredChangeSet } from './change-set.ts'
import type { HostTree, Seen } from './host-tree.ts'

export type ChangeVerdict =
  | { readonly status: 'ready' | 'already' }
  | { readonly status: 'conflict' | 'left'; readonly reason: string }

export interface PlanRules {
  /** The path of Craik’s own home in the workspace. It is never copied or written. */
  readonly own?: string | undefined
  /** Also plans files that programs on the host run or trust automatically. */
  readonly withSettings?: boolean | undefined
}

export interface Planned {
  readonly change: StoredChange
  readonly verdict: ChangeVerdict
}

const NOTHING: Seen = { kind: 'nothing' }

/** Plans removals first, innermost first, so that a file can replace a folder and a folder can replace a file. */
export async function planChanges(
  tree: HostTree,
  { record }: StoredChangeSet,
  rules: PlanRules,
  until: AbortSignal,
): Promise<readonly Planned[]> {
  const removals = record.changes.filter(({ after }) => after === null).reverse()
  const puts = record.changes.filter(({ after }) => after !== null)
  const coming = new Set(puts.map(({ path }) => path))
  const planned: Planned[] = []
  const going = new Set<string>()
  const checked = new Rules(tree, rules)
  for (const change of removals) {
    until.throwIfAborted()
    const verdict =
      (await checked.forbids(change)) ??
      planChange(change, viewReplaced(change.path, await viewPath(tree, change), coming))
    if (verdict.status === 'ready') going.add(change.path)
    planned.push({ change, verdict })
  }
  for (const change of puts) {
    until.throwIfAborted()
    const lookAtChange = async () => withoutRemovals(tree, change.path, await viewPath(tree, change), going)
    planned.push({
      change,
      verdict: (await checked.forbids(change)) ?? planChange(change, await lookAtChange()),
    })
  }
  return planned
}

/** Checks each folder of the workspace once. */
class Rules {
  readonly #tree: HostTree
  readonly #rules: PlanRules
  readonly #repositories = new Map<string, boolean>()

  constructor(tree: HostTree, rules: PlanRules) {
    this.#tree = tree
    this.#rules = rules
  }

  async forbids({ path, after }: StoredChange): Promise<ChangeVerdict | undefined> {
    const { own, withSettings = false } = this.#rules
    if (own !== undefined && `${path}/`.toLowerCase().startsWith(`${own}/`.toLowerCase()))
      return { status: 'left', reason: 'it belongs to Craik' }
    const held =
      findHeldBack(path, after?.kind === 'link' ? after.target : undefined) ??
      ((await this.#isInRepository(path)) ? REPOSITORY_FILE : undefined)
    if (held === undefined || (held.kind === 'settings' && withSettings)) return undefined
    return { status: 'left', reason: held.reason }
  }

  async #isInRepository(path: string): Promise<boolean> {
    for (const folder of ['.', ...foldersOf(path)]) {
      const known = this.#repositories.get(folder)
      const isOne = known ?? (await this.#tree.has(posix.join(folder, REPOSITORY_MARKER)))
      this.#repositories.set(folder, isOne)
      if (isOne) return true
    }
    return false
  }
}

/** A file whose length is neither the old nor the new one must be a different file, so it is not read. */
export function viewPath(tree: HostTree, { path, before, after }: StoredChange): Promise<Seen> {
  const lengths = [before, after].flatMap((state) => (state?.kind === 'file' ? [state.bytes] : []))
  return tree.look(path, lengths)
}

/** Treats a removed path as gone if an earlier attempt already put its replacement there. */
function viewReplaced(path: string, seen: Seen, coming: ReadonlySet<string>): Seen {
  if (seen.kind === 'blocked') return coming.has(seen.at) ? NOTHING : seen
  return seen.kind === 'folder' && hasBelow(coming, path) ? NOTHING : seen
}

/** Returns the entry as it will be after the planned removals. */
async function withoutRemovals(
  tree: HostTree,
  path: string,
  seen: Seen,
  going: ReadonlySet<string>,
): Promise<Seen> {
  if (seen.kind === 'blocked') return going.has(seen.at) ? NOTHING : seen
  if (seen.kind !== 'folder' || !hasBelow(going, path)) return seen
  return (await tree.holdsOnly(path, going)) ? NOTHING : seen
}

function hasBelow(paths: ReadonlySet<string>, folder: string): boolean {
  return [...paths].some((path) => path.startsWith(`${folder}/`))
}

export function planChange({ before, after }: StoredChange, seen: Seen): ChangeVerdict {
  if (isThere(seen, after) && hasRight(seen, after)) return { status: 'already' }
  if (isThere(seen, before)) return { status: 'ready' }
  // An earlier attempt applied the content but not the executable bit.
  if (isThere(seen, after)) return { status: 'ready' }
  return { status: 'conflict', reason: whyConflict(before, seen) }
}

function isThere(seen: Seen, state: State | null): boolean {
  if (state === null) return seen.kind === 'nothing'
  if (state.kind === 'link') return seen.kind === 'link' && seen.target === state.target
  return seen.kind === 'file' && seen.digest === state.digest
}

function hasRight(seen: Seen, state: State | null): boolean {
  return state?.kind !== 'file' || (seen.kind === 'file' && seen.executable === state.executable)
}

function whyConflict(before: State | null, seen: Seen): string {
  switch (seen.kind) {
    case 'nothing':
      return 'it was removed on the host'
    case 'blocked':
      return `${seen.at} is not a folder on the host`
    case 'folder':
      return 'it is a folder on the host'
    case 'special':
      return 'it is a special file on the host'
    default:
      return before === null ? 'it was also added on the host' : 'it was changed on the host'
  }
}
