/** What would become of each change, in the workspace as it is now. Nothing is written. */
import { posix } from 'node:path'
import { heldBack, REPOSITORY_FILE, REPOSITORY_MARKER } from '../../sandboxes/unsafe-paths.ts'
import type { State, StoredChange, StoredChangeSet } from './change-set.ts'
import type { HostTree, Seen } from './host-tree.ts'
import { foldersOf } from './paths.ts'

export type ChangeVerdict =
  | { readonly status: 'ready' | 'already' }
  | { readonly status: 'conflict' | 'left'; readonly reason: string }

export interface PlanRules {
  /** Craik’s own home, where the workspace holds it: never copied, and never written to. */
  readonly own?: string | undefined
  /** Also what programs of this machine run or trust unasked. */
  readonly withSettings?: boolean | undefined
}

export interface Planned {
  readonly change: StoredChange
  readonly verdict: ChangeVerdict
}

const NOTHING: Seen = { kind: 'nothing' }

/**
 * Removals come first, the innermost before the others, so that a file can take the place of a folder and a folder that
 * of a file.
 */
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
      planChange(change, replacedAlready(change.path, await lookFor(tree, change), coming))
    if (verdict.status === 'ready') going.add(change.path)
    planned.push({ change, verdict })
  }
  for (const change of puts) {
    until.throwIfAborted()
    const seen = async () => withoutRemovals(tree, change.path, await lookFor(tree, change), going)
    planned.push({ change, verdict: (await checked.forbids(change)) ?? planChange(change, await seen()) })
  }
  return planned
}

/** Looks at each folder of the workspace once. */
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
      heldBack(path, after?.kind === 'link' ? after.target : undefined) ??
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

/** A file whose length is neither the old nor the new one need not be read to know that it is another. */
export function lookFor(tree: HostTree, { path, before, after }: StoredChange): Promise<Seen> {
  const lengths = [before, after].flatMap((state) => (state?.kind === 'file' ? [state.bytes] : []))
  return tree.look(path, lengths)
}

/** What an earlier attempt put in the place of what it removed is judged by itself. */
function replacedAlready(path: string, seen: Seen, coming: ReadonlySet<string>): Seen {
  if (seen.kind === 'blocked') return coming.has(seen.at) ? NOTHING : seen
  return seen.kind === 'folder' && hasBelow(coming, path) ? NOTHING : seen
}

/** As it will be when what is to be removed is gone. */
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
  // The content came over before, and only the right to run it did not.
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
