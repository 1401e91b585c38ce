/** The manifest that describes a snapshot: in its folder, in exported files, and sealed in the store. */
import { hash } from 'node:crypto'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { LEFT_OUT_REASONS } from '../../lib/safe-tar/left-out.ts'
import { BACKEND_NAMES, CONTAINER_RUNTIMES, CONTAINER_TRANSPORTS, ISOLATIONS } from '../backend.ts'
import { LIMIT_BOUNDS } from '../limit-bounds.ts'

const GIB = 1024 ** 3

/** The limits of every snapshot, whatever its origin. */
export const SNAPSHOT_LIMITS = {
  entries: 2_000_000,
  /** The size of the content. A sandbox with a smaller disk accepts no more than its disk holds. */
  contentBytes: 256 * GIB,
  archiveBytes: 64 * GIB,
  manifestBytes: 256 * 1024,
  /** The number of snapshots in one home. */
  snapshots: 1_000,
} as const

export const SNAPSHOT_ID = /^snap_[0-9A-HJKMNP-TV-Z]{26}$/
export const SNAPSHOT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

const bytes = z.int().nonnegative()
const count = z.int().nonnegative()
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const integerWithin = ({ least, most }: { readonly least: number; readonly most: number }) =>
  z.int().min(least).max(most)

export const manifestSchema = z.strictObject({
  format: z.literal('craik.snapshot/1'),
  id: z.string().regex(SNAPSHOT_ID),
  name: z.string().regex(SNAPSHOT_NAME),
  created_at_ms: z.int().nonnegative(),
  /** `auto`: created for a fork, and removed with it. */
  created_by: z.enum(['user', 'auto']),
  origin: z.strictObject({
    sandbox_id: z.string().regex(/^sbx_[0-9A-HJKMNP-TV-Z]{26}$/),
    name: z.string().min(1).max(64),
  }),
  backend: z.enum(BACKEND_NAMES),
  /** A sandbox from this snapshot gets exactly this image, or is not created. */
  image: z
    .strictObject({ id: z.string().regex(/^sha256:[0-9a-f]{64}$/), name: z.string().min(1).max(300) })
    .nullable(),
  spec: z.strictObject({
    isolation: z.enum(ISOLATIONS),
    /** `in-place`: the workspace was a host folder, and the snapshot does not contain it. */
    workspace: z.enum(['copy', 'in-place']),
    limits: z.strictObject({
      memory_bytes: integerWithin(LIMIT_BOUNDS.memoryBytes),
      processes: integerWithin(LIMIT_BOUNDS.processes),
      cpu_millis: integerWithin(LIMIT_BOUNDS.cpuMillis).optional(),
      disk_bytes: integerWithin(LIMIT_BOUNDS.diskBytes).optional(),
    }),
    environment: z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), z.string().max(32 * 1024))
      .refine((all) => Object.keys(all).length <= 256, 'has more than 256 variables'),
    runtime: z.enum(CONTAINER_RUNTIMES).nullable(),
    line: z.enum(CONTAINER_TRANSPORTS).nullable(),
  }),
  content: z.strictObject({
    files: count.max(SNAPSHOT_LIMITS.entries),
    folders: count.max(SNAPSHOT_LIMITS.entries),
    links: count.max(SNAPSHOT_LIMITS.entries),
    bytes: bytes.max(SNAPSHOT_LIMITS.contentBytes),
    /** The number of omitted entries: sockets, pipes and unreadable files, but not logins. */
    skipped: count,
    skipped_for: z
      .array(z.strictObject({ reason: z.enum(LEFT_OUT_REASONS), count }))
      .max(LEFT_OUT_REASONS.length)
      .optional(),
    /** Whether the processes were frozen, or none ran, while Craik read the disk. */
    still: z.boolean(),
    /** The number of files that changed while Craik read them, which is possible if the processes were not frozen. */
    changed: count,
  }),
  archive: z.strictObject({
    compression: z.literal('zstd'),
    bytes: bytes.max(SNAPSHOT_LIMITS.archiveBytes),
    sha256,
  }),
})

export type SnapshotManifest = z.infer<typeof manifestSchema>

/** Returns the canonical JSON. Its digest identifies the whole snapshot. */
export function formatManifest(manifest: SnapshotManifest): string {
  return canonicalJson(JSON.parse(JSON.stringify(manifest)) as Json)
}

export function manifestDigest(manifest: SnapshotManifest): string {
  return `sha256:${hash('sha256', formatManifest(manifest))}`
}

/** Parses a manifest of any origin. Refuses JSON that is not canonical, because its digest would differ. */
export function parseManifest(text: string): SnapshotManifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw invalidSnapshotError('its manifest is not JSON', cause)
  }
  const format = (value as { readonly format?: unknown } | null)?.format
  if (typeof format === 'string' && format.startsWith('craik.snapshot/') && format !== 'craik.snapshot/1')
    throw invalidSnapshotError('it was created by a newer Craik')
  const parsed = manifestSchema.safeParse(value)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw invalidSnapshotError(`its manifest is invalid at ${issue?.path.join('.') || 'its top level'}`)
  }
  if (formatManifest(parsed.data) !== text) throw invalidSnapshotError('its manifest is not canonical JSON')
  return parsed.data
}

export function invalidSnapshotError(why: string, cause?: unknown): CraikError {
  return new CraikError('usage', `cannot import the snapshot: ${why}`, {
    hint: 'export the snapshot again:  craik snapshot export ID FILE   (nothing was imported)',
    details: { reason: 'not_a_snapshot' },
    cause,
  })
}
