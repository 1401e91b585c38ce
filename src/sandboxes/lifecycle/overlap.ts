/** Which folders no two sandboxes work in at once. */
import { CraikError } from '../../errors.ts'
import type { MountSpec, WorkspaceSpec } from '../backend.ts'
import { COPY_INSTEAD } from '../outdated-sandbox.ts'

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
  const others = rows.map(({ document }) => parseFolderUse(document))
  const other = others.find(
    (one) => one !== undefined && (isBelow(one.folder, folder) || isBelow(folder, one.folder)),
  )
  if (other === undefined) return
  throw new CraikError('conflict', `the workspace overlaps the in-place workspace of sandbox ${other.name}`, {
    hint: `delete that sandbox:  craik sandbox delete ${other.name}   or ${COPY_INSTEAD}`,
  })
}

/**
 * A folder that is shown is refused below one in which a sandbox works in place, and the other way round: who writes
 * there chooses what is found under its name. The same folder is shared.
 */
export function refuseMountOverlap(
  workspace: WorkspaceSpec,
  mounts: readonly MountSpec[],
  rows: readonly { readonly document: string }[],
): void {
  const own = workspace.mode === 'in-place' ? [{ name: 'itself', folder: workspace.folder }] : []
  const writers = [...rows.flatMap(({ document }) => parseFolderUse(document) ?? []), ...own]
  for (const { folder } of mounts) {
    const writer = writers.find((one) => isBelow(one.folder, folder))
    if (writer !== undefined)
      throw new CraikError('conflict', `a mount is inside the workspace of sandbox ${writer.name}`, {
        hint: 'mount a copy of the folder: that sandbox works in place and could replace the folder',
      })
  }
  if (workspace.mode !== 'in-place') return
  const reader = rows
    .flatMap(({ document }) => parseMounts(document))
    .find(({ folder }) => isBelow(workspace.folder, folder))
  if (reader !== undefined)
    throw new CraikError('conflict', `sandbox ${reader.name} mounts a folder of the workspace`, {
      hint: `delete that sandbox:  craik sandbox delete ${reader.name}   or ${COPY_INSTEAD}`,
    })
}

interface FolderUse {
  readonly name: string
  readonly folder: string
}

/** Also of a record that was changed outside Craik: what runs there runs on. */
function parseFolderUse(document: string): FolderUse | undefined {
  const { name, spec } = recordIn(document)
  const workspace = spec?.workspace
  return workspace?.mode === 'in-place' ? { name: String(name), folder: String(workspace.folder) } : undefined
}

function parseMounts(document: string): FolderUse[] {
  const { name, spec } = recordIn(document)
  const mounts = Array.isArray(spec?.mounts) ? (spec.mounts as readonly MountSpec[]) : []
  return mounts.map((mount) => ({ name: String(name), folder: String(mount?.folder) }))
}

function recordIn(document: string): {
  readonly name?: string
  readonly spec?: { readonly workspace?: WorkspaceSpec; readonly mounts?: unknown }
} {
  return JSON.parse(document) ?? {}
}

/** Both are real paths: without links, and without a slash at their end. */
function isBelow(outer: string, inner: string): boolean {
  return inner.startsWith(`${outer}/`)
}
