/** Reads the memory of processes on this host, as the kernel counts it. */
import { readdirSync, readFileSync } from 'node:fs'

export interface ProcessMemory {
  readonly pid: number
  readonly name: string
  readonly rss: number
  /** The proportional set size: a page that several processes share counts in parts. */
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

/** Returns these processes and all their descendants. */
export function withDescendants(pids: readonly number[]): readonly number[] {
  const family = new Set(pids)
  const parents = new Map(allProcesses().map((pid) => [pid, parentOf(pid)]))
  for (let size = -1; size !== family.size; ) {
    size = family.size
    for (const [pid, parent] of parents) if (family.has(parent)) family.add(pid)
  }
  return [...family]
}

export function memoryOf(pids: readonly number[]): readonly ProcessMemory[] {
  return pids.map((pid) => {
    const rollup = read(pid, 'smaps_rollup')
    const bytesOf = (name: string) =>
      Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(rollup)?.[1] ?? 0) * 1024
    return { pid, name: read(pid, 'comm').trim(), rss: bytesOf('Rss'), pss: bytesOf('Pss') }
  })
}

/** Returns an empty string for a process that has exited. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
