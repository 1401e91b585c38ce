/** Which folders no two sandboxes work in at once. */
import { CraikError } from '../../errors.ts'
import type { WorkspaceSpec } from '../backend.ts'

/**
 * A folder in place inside that of another sandbox, or around it, is refused: the outer one could exchange what the inner
 * one guards, and would write unguarded there. The same folder is shared: both guard the same names, and neither can
 * exchange what is mounted for it. One that is lost counts too, since it may be one whose removal failed.
 */
export function refuseOverlap(
  workspace: WorkspaceSpec,
  rows: readonly { readonly document: string }[],
): void {
  if (workspace.mode !== 'in-place') return
  const { folder } = workspace
  const others = rows.map(({ document }) => placed(document))
  const other = others.find(
    (one) => one !== undefined && (isBelow(one.folder, folder) || isBelow(folder, one.folder)),
  )
  if (other === undefined) return
  throw new CraikError(
    'conflict',
    `the workspace overlaps that of sandbox ${other.name}, which works in place`,
    {
      hint: `delete that one:  craik sandbox delete ${other.name}   or work on a copy: leave out --in-place`,
    },
  )
}

/** Also of a record that was changed outside Craik: what runs there runs on. */
function placed(document: string): { readonly name: string; readonly folder: string } | undefined {
  const record = JSON.parse(document) as {
    readonly name?: string
    readonly spec?: { readonly workspace?: WorkspaceSpec }
  } | null
  const workspace = record?.spec?.workspace
  return workspace?.mode === 'in-place'
    ? { name: String(record?.name), folder: String(workspace.folder) }
    : undefined
}

/** Both are real paths: without links, and without a slash at their end. */
function isBelow(outer: string, inner: string): boolean {
  return inner.startsWith(`${outer}/`)
}
