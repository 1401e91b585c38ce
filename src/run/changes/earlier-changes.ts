/**
 * The baseline of a later run in the same sandbox. Changes of earlier runs that the original folder already has do not
 * count.
 */
import { changesBetween } from './file-changes.ts'
import type { FileManifest } from './file-manifest.ts'
import { HostTree } from './host-tree.ts'
import { planChange, viewPath } from './plan-changes.ts'
import { entryState } from './store-change-set.ts'

/** Returns the first manifest, updated with the changes that were applied since. */
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
    if (planChange(change, await viewPath(tree, change)).status !== 'already') continue
    const entry = now.entries.get(path)
    if (entry === undefined) entries.delete(path)
    else entries.set(path, entry)
  }
  return { ...first, entries }
}
