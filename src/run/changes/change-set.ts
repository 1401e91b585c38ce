/**
 * The stored change set of a run: a record that lists each path with its old and new state, and the contents next to
 * it.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { ensurePrivateFolder, readPrivateFile, writePrivateFile } from '../../lib/private-files.ts'
import type { Home } from '../../store/home.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { linkTarget, workspacePath } from './change-paths.ts'
import { ContentStore, sha256 } from './content-store.ts'
import { type FileManifest, type ManifestEntry, SHA256 } from './file-manifest.ts'

export const RECORD = 'changes.json'
const APPLIED = 'applied.json'
const applied = z.strictObject({ version: z.literal(1), digest: z.string() })

const reference = z.string().regex(REFERENCE)
const state = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('file'),
    digest: z.string().regex(SHA256),
    bytes: z.int().nonnegative(),
    executable: z.boolean(),
  }),
  z.strictObject({ kind: z.literal('link'), target: linkTarget }),
])

const keptChange = z
  .strictObject({ path: workspacePath, before: state.nullable(), after: state.nullable() })
  .refine(({ before, after }) => before !== null || after !== null, 'has neither before nor after')

const keptChanges = z.strictObject({
  schema: z.literal('craik.run_changes'),
  version: z.literal(1),
  run_id: reference,
  sandbox_id: reference,
  operator_subject: reference,
  /** The folder on the host that was copied. */
  workspace: z.string().min(1).startsWith('/').max(4096),
  kept_at: z.iso.datetime(),
  changes: z.array(keptChange).max(2 * CHANGE_LIMITS.entries),
  left: z.array(z.strictObject({ path: z.string().max(8192), reason: z.string().max(200) })),
  left_count: z.int().nonnegative(),
})

export type State = z.infer<typeof state>
export type StoredChange = z.infer<typeof keptChange>
export type StoredChanges = z.infer<typeof keptChanges>

export type ChangeKind = 'added' | 'changed' | 'removed'

export function changeKind({ before, after }: StoredChange): ChangeKind {
  return before === null ? 'added' : after === null ? 'removed' : 'changed'
}

/** A run’s changes, read from disk. */
export interface StoredChangeSet {
  readonly record: StoredChanges
  /** The digest of the record’s bytes, `sha256:…`. */
  readonly digest: string
  readonly contents: ContentStore
  readonly folder: string
}

/** Returns `runs/<id>` of the home. Throws `not_found` for an id that is not a single file name. */
export function changeSetFolder(home: Home, runId: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$/.test(runId)) throw noChanges(runId)
  return join(home.runs, runId)
}

export function contentsIn(folder: string): ContentStore {
  return new ContentStore(join(folder, 'files'))
}

/** Writes the record last and atomically. After that the change set is stored. */
export function writeRecord(folder: string, record: StoredChanges): StoredChangeSet {
  const text = `${JSON.stringify(keptChanges.parse(record))}\n`
  writePrivateFile(recordPath(folder), text, 'record of changes')
  return { record, digest: `sha256:${sha256(text)}`, contents: contentsIn(folder), folder }
}

export async function readChangeSet(home: Home, runId: string): Promise<StoredChangeSet> {
  const folder = changeSetFolder(home, runId)
  const bytes = await readRecord(recordPath(folder), 'record of changes')
  if (bytes === undefined) throw noChanges(runId)
  const parsed = keptChanges.safeParse(parseJson(bytes))
  if (!parsed.success || parsed.data.run_id !== runId)
    throw new CraikError('store_damaged', `cannot read the record of the changes of run ${runId}`, {
      hint: `continue the run to save its changes again:  craik prompt --resume ${runId} "continue"`,
    })
  return { record: parsed.data, digest: `sha256:${sha256(bytes)}`, contents: contentsIn(folder), folder }
}

const entry: z.ZodType<ManifestEntry> = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('file'),
    bytes: z.int().nonnegative(),
    executable: z.boolean(),
    digest: z.string().max(100),
    tooLarge: z.literal(true).optional(),
  }),
  z.strictObject({ kind: z.literal('link'), target: linkTarget }),
  z.strictObject({ kind: z.literal('other'), what: z.enum(['pipe', 'socket', 'device', 'unreadable']) }),
]) as z.ZodType<ManifestEntry>

const baseline = z.strictObject({
  schema: z.literal('craik.run_baseline'),
  version: z.literal(1),
  entries: z.array(z.tuple([workspacePath, entry])),
  unfit: z.array(z.string()),
  unfit_count: z.int(),
})

/** Stores the first manifest of a workspace, so that an interrupted run can be compared later. */
export function keepBaseline(home: Home, runId: string, { entries, unfit, unfitCount }: FileManifest): void {
  const folder = changeSetFolder(home, runId)
  ensurePrivateFolder(home.runs, 'runs folder')
  ensurePrivateFolder(folder, 'run folder')
  const record = {
    schema: 'craik.run_baseline',
    version: 1,
    entries: [...entries],
    unfit,
    unfit_count: unfitCount,
  }
  writePrivateFile(join(folder, 'baseline.json'), `${JSON.stringify(record)}\n`, 'run baseline')
}

export async function readBaseline(home: Home, runId: string): Promise<FileManifest | undefined> {
  const bytes = await readRecord(join(changeSetFolder(home, runId), 'baseline.json'), 'run baseline')
  const parsed = bytes === undefined ? undefined : baseline.safeParse(parseJson(bytes))
  if (parsed?.success !== true) return undefined
  const { entries, unfit, unfit_count } = parsed.data
  return { entries: new Map(entries), unfit, unfitCount: unfit_count }
}

function recordPath(folder: string): string {
  return join(folder, RECORD)
}

/** Records that the workspace has all changes, even if its files change later. */
export function markApplied({ folder, digest }: StoredChangeSet): void {
  writePrivateFile(join(folder, APPLIED), `${JSON.stringify({ version: 1, digest })}\n`, 'apply marker')
}

/** Returns whether this record was marked. A later record of the same run is not. */
export function isMarkedApplied({ folder, digest }: StoredChangeSet): boolean {
  try {
    const bytes = readPrivateFile(join(folder, APPLIED), 1024, 'apply marker')
    return applied.safeParse(parseJson(bytes)).data?.digest === digest
  } catch {
    return false
  }
}

/** Checks the size first, because the reader allocates the maximum that it can read. */
async function readRecord(path: string, label: string): Promise<Buffer | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const { size } = await file.stat().finally(() => file.close())
    return readPrivateFile(path, Math.min(size, CHANGE_LIMITS.recordBytes), label)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

function noChanges(runId: string): CraikError {
  return new CraikError('not_found', `no saved changes of run ${JSON.stringify(runId.slice(0, 80))}`, {
    hint: 'list the prompts, which save changes if they run on a copy of a workspace:  craik run list --prompts',
  })
}
