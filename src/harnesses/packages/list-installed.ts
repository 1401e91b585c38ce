/** Lists the agent CLIs that are installed on the host, and removes those that are not needed. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { waitForFileLock } from '../../lib/wait-for-lock.ts'
import {
  harnessesFolder,
  harnessName,
  harnessVersion,
  isHarnessId,
  type PackageOwner,
} from '../../sandboxes/harness-package.ts'
import { removeTree } from '../../sandboxes/remove-tree.ts'
import { PACKAGE_NAMES, readPackage } from './harness-catalogue.ts'
import { readManifest } from './harness-manifest.ts'
import { removeAbandoned } from './install-harness.ts'

export interface FoundHarness {
  readonly id: string
  readonly name: string
  readonly version: string
  readonly folder: string
  readonly files: number
  readonly bytes: number
  /** True when this build of Craik would install the same package. */
  readonly isCurrent: boolean
}

/** Lists the installed packages, without unfinished installations. */
export async function listInstalled(owner: PackageOwner): Promise<readonly FoundHarness[]> {
  const all = harnessesFolder(owner)
  const current = currentIds()
  const found: FoundHarness[] = []
  for (const id of (await readdir(all).catch(() => [])).filter(isHarnessId).sort()) {
    const folder = join(all, id)
    const manifest = await readManifest(folder)
    const { files = 0, bytes = 0 } = manifest ?? {}
    found.push({
      id,
      name: harnessName(id),
      version: harnessVersion(id),
      folder,
      files,
      bytes,
      isCurrent: current.has(id),
    })
  }
  return found
}

/**
 * Removes the packages of other recipes that no sandbox needs. With `all`, also removes the current ones that no
 * sandbox needs.
 */
export async function pruneInstalled(
  owner: PackageOwner,
  inUse: ReadonlySet<string>,
  { all = false, signal }: { readonly all?: boolean; readonly signal: AbortSignal },
): Promise<{
  readonly removed: readonly FoundHarness[]
  readonly kept: readonly { harness: FoundHarness; why: string }[]
}> {
  const removed: FoundHarness[] = []
  const stored: { harness: FoundHarness; why: string }[] = []
  const installed = await listInstalled(owner)
  if (installed.length === 0) return { removed, kept: stored }
  const folder = harnessesFolder(owner)
  using _lock = await waitForFileLock(join(folder, 'lock'), 'harnesses lock', {
    doing: 'installs a harness',
    signal,
    onWait: () => {},
  })
  await removeAbandoned(folder)
  for (const harness of installed) {
    signal.throwIfAborted()
    if (inUse.has(harness.id)) stored.push({ harness, why: 'a sandbox needs it' })
    else if (harness.isCurrent && !all) stored.push({ harness, why: 'this build of Craik uses it' })
    else {
      await removeTree(harness.folder)
      removed.push(harness)
    }
  }
  return { removed, kept: stored }
}

function currentIds(): ReadonlySet<string> {
  return new Set(
    PACKAGE_NAMES.flatMap((name) => {
      try {
        return [readPackage(name).id]
      } catch {
        // This package does not support this kind of processor.
        return []
      }
    }),
  )
}
