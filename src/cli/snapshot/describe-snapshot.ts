/** Formats a snapshot: as a row and as a page. */
import { formatDuration } from '../../lib/duration.ts'
import type { ListedSnapshotBody, SnapshotBody } from '../../operator/api/bodies.ts'
import { type Column, printable } from '../output.ts'
import { formatBytes, formatFileCount } from '../sandbox/amounts.ts'
import { cpuOf } from '../sandbox/describe-sandbox.ts'

export const SNAPSHOT_COLUMNS = (nowMs: number): readonly Column<ListedSnapshotBody>[] => [
  { title: 'name', value: ({ name }) => name },
  { title: 'sandbox', value: whenReadable(({ origin }) => origin.name), dropOrder: 2 },
  { title: 'content', value: whenReadable(describeContent), dropOrder: 5 },
  { title: 'archive', value: whenReadable(({ archive_bytes }) => formatBytes(archive_bytes)), dropOrder: 3 },
  {
    title: 'age',
    value: whenReadable(({ created_at_ms }) => formatDuration(Math.max(0, nowMs - created_at_ms))),
    dropOrder: 4,
  },
  // The name identifies a snapshot too.
  { title: 'id', value: ({ id }) => id, dropOrder: 1 },
]

/** A snapshot whose record is damaged shows only its id. */
function whenReadable(value: (snapshot: SnapshotBody) => string): (snapshot: ListedSnapshotBody) => string {
  return (snapshot) => ('state' in snapshot ? 'damaged' : value(snapshot))
}

export function describeContent({ content }: SnapshotBody): string {
  return `${formatFileCount(content.files)}, ${formatBytes(content.bytes)}`
}

/** Returns undefined if nothing was skipped. */
export function describeLeftOut({ content }: Pick<SnapshotBody, 'content'>): string | undefined {
  if (content.skipped === 0) return undefined
  const reasons = content.skipped_for?.map(({ reason, count }) => `${reason} (${count.toLocaleString('en')})`)
  const what = content.skipped === 1 ? '1 entry' : `${content.skipped.toLocaleString('en')} entries`
  return reasons === undefined ? what : `${what}: ${reasons.join(', ')}`
}

export function describeSnapshot(snapshot: SnapshotBody, nowMs: number): string {
  const { content, limits, origin, image, variables } = snapshot
  const lines: readonly (readonly [string, string | undefined])[] = [
    ['sandbox', `${origin.name} · ${origin.sandbox_id}`],
    ['digest', snapshot.digest],
    ['content', `${describeContent(snapshot)} · ${content.folders} folders · ${content.links} links`],
    ['skipped', describeLeftOut(snapshot)],
    [
      'read',
      content.still
        ? 'while no process was running'
        : `while processes were running: ${content.changed} files changed`,
    ],
    ['archive', formatBytes(snapshot.archive_bytes)],
    ['backend', snapshot.backend],
    ['image', image === null ? undefined : `${image.name} · ${image.id}`],
    ['workspace', snapshot.workspace === 'copy' ? 'included' : 'not included: a folder of the host'],
    ...(variables.length > 0
      ? [['variables', `${variables.join(', ')}: values in plain text`] as const]
      : []),
    ['memory', formatBytes(limits.memory_bytes)],
    ['processes', String(limits.processes)],
    ['cpu', cpuOf(limits)],
    ['disk', limits.disk_bytes === undefined ? 'no limit' : formatBytes(limits.disk_bytes)],
    ['operator', snapshot.operator],
    ['policy', snapshot.policy_envelope_id],
    [
      snapshot.imported ? 'imported' : 'created',
      `${formatDuration(Math.max(0, nowMs - snapshot.created_at_ms))} ago`,
    ],
  ]
  const shown = lines.map(([label, value]) =>
    value === undefined ? '' : `  ${label.padEnd(10)}  ${printable(value)}\n`,
  )
  return `  ${printable(snapshot.name)} · ${snapshot.id}\n${shown.join('')}`
}
