/** The changes of a workspace between two manifests. */
import { quoteName } from '../../lib/safe-tar/entry-names.ts'
import { linkProblem, pathProblem } from '../../sandboxes/unsafe-paths.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { foldersOf } from './change-paths.ts'
import type { FileEntry, FileManifest, LinkEntry, ManifestEntry } from './file-manifest.ts'

export type ApplicableEntry = FileEntry | LinkEntry

export interface Change {
  readonly path: string
  /** Null when there was nothing. */
  readonly before: ApplicableEntry | null
  /** Null when there is nothing. */
  readonly after: ApplicableEntry | null
}

export interface LeftChange {
  /** The path as the file system names it, or a printable form if it has no valid name. */
  readonly path: string
  readonly reason: string
}

export interface FileChanges {
  /** Sorted by path. */
  readonly changes: readonly Change[]
  /** Differences that cannot be applied. */
  readonly left: readonly LeftChange[]
  readonly leftCount: number
}

export function changesBetween(before: FileManifest, after: FileManifest): FileChanges {
  const changes: Change[] = []
  const left = new SkippedList()
  for (const path of new Set([...before.entries.keys(), ...after.entries.keys()])) {
    const was = before.entries.get(path)
    const is = after.entries.get(path)
    if (isSame(was, is)) continue
    const reason = whyLeft(path, was, is, after)
    if (reason !== undefined) left.add(path, reason)
    else changes.push({ path, before: toApplicableEntry(was), after: toApplicableEntry(is) })
  }
  const known = new Set(before.unfit)
  const unfit = after.unfit.filter((name) => !known.has(name))
  for (const name of unfit) left.add(name, 'its name is invalid')
  changes.sort((a, b) => (a.path < b.path ? -1 : 1))
  return { changes, ...left.report() }
}

function whyLeft(
  path: string,
  was: ManifestEntry | undefined,
  is: ManifestEntry | undefined,
  after: FileManifest,
): string | undefined {
  const problem = pathProblem(path)
  if (problem !== undefined) return problem
  if (is?.kind === 'other')
    return is.what === 'unreadable' ? 'it is unreadable in the sandbox' : `it is a ${is.what}`
  // An entry that was not a file before is also missing on the host, or differs there.
  if (was?.kind === 'other') return `it was ${was.what === 'unreadable' ? 'unreadable' : `a ${was.what}`}`
  if (is === undefined && foldersOf(path).some((folder) => after.entries.get(folder)?.kind === 'other'))
    return 'its folder is unreadable in the sandbox'
  if (is?.kind === 'file' && is.tooLarge) return 'it is too large'
  if (was?.kind === 'file' && was.tooLarge) return 'it was too large to compare'
  return is?.kind === 'link' ? linkProblem(path, is.target) : undefined
}

function toApplicableEntry(entry: ManifestEntry | undefined): ApplicableEntry | null {
  return entry === undefined || entry.kind === 'other' ? null : entry
}

function isSame(a: ManifestEntry | undefined, b: ManifestEntry | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  if (a.kind === 'file' && b.kind === 'file') return a.digest === b.digest && a.executable === b.executable
  if (a.kind === 'link' && b.kind === 'link') return a.target === b.target
  return a.kind === 'other' && b.kind === 'other' && a.what === b.what
}

/** Counts all changes and names them up to a limit. */
export class SkippedList {
  readonly #named: LeftChange[] = []
  #count = 0

  add(path: string, reason: string): void {
    this.#count++
    if (this.#named.length < CHANGE_LIMITS.named) this.#named.push({ path: readable(path), reason })
  }

  report(): { readonly left: readonly LeftChange[]; readonly leftCount: number } {
    return { left: this.#named, leftCount: this.#count }
  }
}

function readable(path: string): string {
  return /\p{Cc}/u.test(path) ? quoteName(path) : path
}
