/** What is mounted where, as the kernel tells it of a process. */
import { readFileSync } from 'node:fs'

export interface MountedAt {
  readonly point: string
  /** The file system, as `major:minor`, and the folder of it that is mounted. */
  readonly device: string
  readonly root: string
  /** Of this mount, such as `ro`. */
  readonly options: readonly string[]
  /** Whom it tells of what is mounted in it, and who tells it: `shared:4`, `master:4`. */
  readonly tags: readonly string[]
}

/** In the order in which it was mounted: what covers another comes later. */
export function mountTable(pid: number | 'self'): readonly MountedAt[] {
  if (process.platform !== 'linux') return []
  return readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const fields = line.split(' ')
      return {
        point: unescaped(fields[4] ?? ''),
        device: fields[2] ?? '',
        root: unescaped(fields[3] ?? ''),
        options: (fields[5] ?? '').split(','),
        tags: fields.slice(6, fields.indexOf('-', 6)),
      }
    })
}

/** Where something is mounted on this machine. */
export function mountPoints(): readonly string[] {
  return mountTable('self').map(({ point }) => point)
}

/** The kernel writes spaces and the like as octal numbers. */
function unescaped(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
}
