/** Finds and removes what a test engine leaves on the host outside its folder: processes, mounts and cgroups. */
import { execFileSync } from 'node:child_process'
import { globSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { SYSTEM_PATH } from '../src/sandboxes/backends/process/required-programs.ts'

const GONE_DEADLINE_MS = 10_000
const POLL_MS = 50

/** Returns the processes with this path in their arguments. */
export function processesNaming(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => readIfThere(`/proc/${pid}/cmdline`).includes(path))
    .map(Number)
}

/** Returns the processes in these cgroups or below them. */
export function processesIn(cgroups: readonly string[]): number[] {
  const files = cgroups.flatMap((path) => globSync(`${path}/**/cgroup.procs`))
  return [...new Set(files.flatMap((file) => readIfThere(file).split('\n').filter(Boolean).map(Number)))]
}

export async function killAll(find: () => number[]): Promise<void> {
  const until = performance.now() + GONE_DEADLINE_MS
  for (;;) {
    const pids = find()
    for (const pid of pids) killIfThere(pid)
    if (pids.length === 0 || performance.now() > until) return
    await sleep(POLL_MS)
  }
}

export function unmountBelow(folder: string): void {
  for (const path of mountsBelow(folder))
    execFileSync('umount', ['--lazy', path], { env: { PATH: SYSTEM_PATH } })
}

/** Returns the mounts below a folder, innermost first. */
function mountsBelow(folder: string): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith(`${folder}/`))
    .reverse()
}

export function removeTree(path: string): void {
  for (const inner of globSync(`${path}/*/`)) removeTree(inner)
  try {
    rmdirSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
