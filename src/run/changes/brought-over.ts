/** What a later run in the same sandbox is held against: what earlier ones changed and the folder here has already is no change any more. */
import { changesBetween } from './compare.ts'
import { HostTree } from './host-tree.ts'
import type { FileManifest } from './manifest.ts'
import { lookFor, planChange } from './plan.ts'
import { entryState } from './store-change-set.ts'

/** The first look at the workspace, brought up to date with what was brought over since. */
export async function withBroughtOver(
  workspace: string,
  first: FileManifest,
  now: FileManifest,
  until: AbortSignal,
): Promise<FileManifest> {
  await using tree = await HostTree.open(workspace)
  const entries = new Map(first.entries)
  for (const { path, before, after } of changesBetween(first, now).changes) {
    until.throwIfAborted()
    const change = { path, before: entryState(before), after: entryState(after) }
    if (planChange(change, await lookFor(tree, change)).status !== 'already') continue
    const entry = now.entries.get(path)
    if (entry === undefined) entries.delete(path)
    else entries.set(path, entry)
  }
  return { ...first, entries }
}
