/** Prevents sandboxes from working in overlapping folders. */
import { CraikError } from '../../errors.ts'
import type { MountSpec, WorkspaceSpec } from '../backend.ts'
import { COPY_INSTEAD } from '../outdated-sandbox.ts'

/**
 * Refuses an in-place workspace that is inside that of another sandbox, or contains it. The outer sandbox could replace
 * what the inner one protects, and could write there without protection. The same folder may be shared: both sandboxes
 * protect the same names, and neither can replace the folder itself. A lost sandbox counts too, because its removal may
 * have failed.
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
 * Refuses a mount below the in-place workspace of a sandbox, and the reverse. The sandbox that writes there could
 * replace the mounted folder. The same folder may be shared.
 */
export function refuseMountOverlap(
  workspace: WorkspaceSpec,
  mounts: readonly MountSpec[],
  rows: readonly { readonly document: string }[],
): void {
  const own = workspace.mode === 'in-place' ? [{ name: undefined, folder: workspace.folder }] : []
  const writers = [...rows.flatMap(({ document }) => parseFolderUse(document) ?? []), ...own]
  for (const { folder } of mounts) {
    const writer = writers.find((one) => isBelow(one.folder, folder))
    if (writer === undefined) continue
    const whose = writer.name === undefined ? 'this sandbox' : `sandbox ${writer.name}`
    throw new CraikError('conflict', `the mount ${folder} is inside the in-place workspace of ${whose}`, {
      hint: `mount a copy of the folder: programs in ${whose} could replace the folder itself`,
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

/** Also reads records that were changed outside Craik, because their sandboxes may still run. */
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

/** Both must be real paths, without symbolic links and without a trailing slash. */
function isBelow(outer: string, inner: string): boolean {
  return inner.startsWith(`${outer}/`)
}
