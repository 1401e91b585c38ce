/** Reads the mounts of a process from the kernel. */
import { readFileSync } from 'node:fs'

export interface MountedAt {
  readonly point: string
  /** The file system, as `major:minor`, and its mounted folder. */
  readonly device: string
  readonly root: string
  /** The options of this mount, such as `ro`. */
  readonly options: readonly string[]
  /** The mount's propagation groups, as sender or receiver: `shared:4`, `master:4`. */
  readonly tags: readonly string[]
}

/** Returns mounts in the order in which they were created. A mount that covers another comes later. */
export function mountTable(pid: number | 'self'): readonly MountedAt[] {
  if (process.platform !== 'linux') return []
  return readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const fields = line.split(' ')
      return {
        point: unescapePath(fields[4] ?? ''),
        device: fields[2] ?? '',
        root: unescapePath(fields[3] ?? ''),
        options: (fields[5] ?? '').split(','),
        tags: fields.slice(6, fields.indexOf('-', 6)),
      }
    })
}

/** Returns the mount points of this machine. */
export function mountPoints(): readonly string[] {
  return mountTable('self').map(({ point }) => point)
}

/** The kernel writes spaces and similar characters as octal numbers. */
function unescapePath(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
}
