/** What processes of this machine hold in memory, as the kernel counts it. */
import { readdirSync, readFileSync } from 'node:fs'

export interface Held {
  readonly pid: number
  readonly name: string
  readonly rss: number
  /** Pages that several have are counted in parts. */
  readonly pss: number
}

export function allProcesses(): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

export function environmentOf(pid: number): readonly string[] {
  return read(pid, 'environ').split('\0')
}

export function parentOf(pid: number): number {
  return Number(/^PPid:\s*(\d+)/m.exec(read(pid, 'status'))?.[1])
}

/** These and all that they started. */
export function below(pids: readonly number[]): readonly number[] {
  const family = new Set(pids)
  const parents = new Map(allProcesses().map((pid) => [pid, parentOf(pid)]))
  for (let size = -1; size !== family.size; ) {
    size = family.size
    for (const [pid, parent] of parents) if (family.has(parent)) family.add(pid)
  }
  return [...family]
}

export function memoryOf(pids: readonly number[]): readonly Held[] {
  return pids.map((pid) => {
    const rollup = read(pid, 'smaps_rollup')
    const bytesOf = (name: string) =>
      Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(rollup)?.[1] ?? 0) * 1024
    return { pid, name: read(pid, 'comm').trim(), rss: bytesOf('Rss'), pss: bytesOf('Pss') }
  })
}

/** Empty for what has ended meanwhile. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
