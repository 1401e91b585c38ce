/**
 * Manages the control groups of sandboxes: `craik/<id>` in each hierarchy where Craik can create one, of either
 * version.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import type { LimitSpec, ObservedUse } from '../../backend.ts'

type Controller = 'memory' | 'pids' | 'cpu' | 'cpuacct' | 'freezer'
/** `freezer` is a controller only in version 1. In version 2, every group can be frozen. */
const CONTROLLERS: readonly Controller[] = ['memory', 'pids', 'cpu', 'cpuacct', 'freezer']

/** Where Craik can create groups. */
export interface Cgroups {
  readonly version: 1 | 2 | 'none'
  /** For each controller, the folder in which a sandbox gets its own group. */
  readonly parents: Readonly<Partial<Record<Controller, string>>>
}

const PERIOD_US = 100_000
const REMOVE_DEADLINE_MS = 5000
const REMOVE_PAUSE_MS = 20
const FREEZE_DEADLINE_MS = 10_000
const FREEZE_PAUSE_MS = 10

/** Returns what this process can use. It tests that by creating a group and removing it. */
export function probeCgroups(mounts = readFileSync('/proc/self/mountinfo', 'utf8')): Cgroups {
  const found = parseMountedControllers(mounts)
  const parents: Partial<Record<Controller, string>> = {}
  for (const controller of CONTROLLERS) {
    const root = found.v1.get(controller)
    if (root !== undefined && isUsable(root)) parents[controller] = join(root, 'craik')
  }
  if (parents.memory !== undefined || parents.pids !== undefined) return { version: 1, parents }
  const delegated = found.v2 && findDelegatedFolder(found.v2)
  if (delegated === undefined) return { version: 'none', parents: {} }
  const parent = join(delegated, 'craik')
  const enabled = delegateControllers(delegated, parent)
  const use = CONTROLLERS.filter((controller) => enabled.has(controller))
  return { version: 2, parents: Object.fromEntries(use.map((controller) => [controller, parent])) }
}

/** Returns where each controller of version 1, and version 2, are mounted. */
export function parseMountedControllers(mounts: string): {
  readonly v1: Map<string, string>
  readonly v2: string | undefined
} {
  const v1 = new Map<string, string>()
  let v2: string | undefined
  for (const line of mounts.split('\n')) {
    const [mount = '', fileSystem = ''] = line.split(' - ')
    const point = mount.split(' ')[4] ?? ''
    const [type, , options = ''] = fileSystem.split(' ')
    if (type === 'cgroup2') v2 ??= point
    if (type === 'cgroup') for (const option of options.split(',')) if (!v1.has(option)) v1.set(option, point)
  }
  return { v1, v2 }
}

function isUsable(root: string): boolean {
  const trial = join(root, 'craik', `probe-${process.pid}`)
  try {
    mkdirSync(trial, { recursive: true })
    rmdirSync(trial)
    return true
  } catch {
    return false
  }
}

/** For version 2: returns the highest group above this process that it may divide. */
function findDelegatedFolder(root: string): string | undefined {
  const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
  if (own === undefined || own.split('/').includes('..')) return undefined
  let best: string | undefined
  for (let folder = join(root, own); folder.startsWith(root); folder = dirname(folder)) {
    if (!mayWrite(join(folder, 'cgroup.procs')) || !mayWrite(join(folder, 'cgroup.subtree_control'))) break
    best = folder
    if (folder === root) break
  }
  return best
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Passes controllers to the groups of sandboxes. Returns those that arrived, because only they enforce limits. */
function delegateControllers(delegated: string, parent: string): ReadonlySet<string> {
  try {
    mkdirSync(parent, { recursive: true })
    for (const folder of [delegated, parent])
      for (const controller of ['memory', 'pids', 'cpu'])
        attempt(() => writeFileSync(join(folder, 'cgroup.subtree_control'), `+${controller}`))
    return new Set(read(join(parent, 'cgroup.subtree_control')).split(/\s+/))
  } catch {
    return new Set()
  }
}

/** The groups of one sandbox, in the hierarchies that exist. */
export class SandboxCgroup {
  readonly #version: Cgroups['version']
  readonly #folders: Readonly<Partial<Record<Controller, string>>>

  constructor({ version, parents }: Cgroups, id: string) {
    this.#version = version
    this.#folders = Object.fromEntries(
      Object.entries(parents).map(([name, parent]) => [name, join(parent, id)]),
    )
  }

  /** Each folder once, because in version 2 all controllers share one. */
  get #all(): string[] {
    return [...new Set(Object.values(this.#folders))]
  }

  /** A process that writes its pid to these files is in the group, and so is everything that it starts. */
  get joinFiles(): string[] {
    return this.#all.map((folder) => join(folder, 'cgroup.procs'))
  }

  create(limits: LimitSpec): void {
    for (const folder of this.#all) mkdirSync(folder, { recursive: true })
    const { memory, pids, cpu } = this.#folders
    const isFirst = this.#version === 1
    if (memory !== undefined) {
      writeFileSync(
        join(memory, isFirst ? 'memory.limit_in_bytes' : 'memory.max'),
        String(limits.memoryBytes),
      )
      // Swap counts too. If the kernel does not count swap, this file does not exist.
      if (isFirst)
        attempt(() => writeExisting(join(memory, 'memory.memsw.limit_in_bytes'), limits.memoryBytes))
      else attempt(() => writeExisting(join(memory, 'memory.swap.max'), 0))
    }
    if (pids !== undefined) writeFileSync(join(pids, 'pids.max'), String(limits.processes))
    if (cpu === undefined || limits.cpuMillis === undefined) return
    const quotaUs = Math.max(1000, Math.round((limits.cpuMillis * PERIOD_US) / 1000))
    if (isFirst) {
      writeFileSync(join(cpu, 'cpu.cfs_period_us'), String(PERIOD_US))
      writeFileSync(join(cpu, 'cpu.cfs_quota_us'), String(quotaUs))
    } else writeFileSync(join(cpu, 'cpu.max'), `${quotaUs} ${PERIOD_US}`)
  }

  observe(): ObservedUse {
    const { memory = '', pids = '', cpuacct = '', cpu = '' } = this.#folders
    const isFirst = this.#version === 1
    const memoryBytes = readNumber(join(memory, isFirst ? 'memory.usage_in_bytes' : 'memory.current'))
    const processes = readNumber(join(pids, 'pids.current'))
    const kills = readField(join(memory, isFirst ? 'memory.oom_control' : 'memory.events'), 'oom_kill')
    const cpuMs = isFirst
      ? divide(readNumber(join(cpuacct, 'cpuacct.usage')), 1e6)
      : divide(readField(join(cpu, 'cpu.stat'), 'usage_usec'), 1e3)
    return {
      ...(memoryBytes !== undefined && { memoryBytes }),
      ...(processes !== undefined && { processes }),
      ...(cpuMs !== undefined && { cpuMs }),
      ...(kills !== undefined && { outOfMemoryKills: kills }),
    }
  }

  /** Whether the processes in the group can be frozen. */
  get canFreeze(): boolean {
    const { path } = this.#freezing('THAWED', '0')
    return path !== undefined && existsSync(path)
  }

  /** Resolves when every process in the group is frozen. */
  async freeze(): Promise<void> {
    await this.#set('FROZEN', '1')
  }

  async thaw(): Promise<void> {
    await this.#set('THAWED', '0')
  }

  async #set(first: 'FROZEN' | 'THAWED', second: '0' | '1'): Promise<void> {
    const { path, value, isReached } = this.#freezing(first, second)
    if (path === undefined || !existsSync(path)) return
    const endsMs = performance.now() + FREEZE_DEADLINE_MS
    // Version 1 can stop half-way until the state is written again.
    for (;;) {
      attempt(() => writeExisting(path, value))
      if (isReached() || !existsSync(path)) return
      if (performance.now() > endsMs)
        throw new CraikError('timeout', 'could not freeze or thaw the sandbox’s processes', {
          hint: 'try again, or stop the sandbox, which keeps its disk:  craik sandbox stop ID',
        })
      await sleep(FREEZE_PAUSE_MS)
    }
  }

  #freezing(first: 'FROZEN' | 'THAWED', second: '0' | '1') {
    if (this.#version === 1) {
      const { freezer } = this.#folders
      const path = freezer && join(freezer, 'freezer.state')
      return { path, value: first, isReached: () => readIfExists(path ?? '') === first }
    }
    const folder = this.#version === 2 ? this.#all[0] : undefined
    const path = folder && join(folder, 'cgroup.freeze')
    const isReached = () => readField(join(folder ?? '', 'cgroup.events'), 'frozen') === Number(second)
    return { path, value: second, isReached }
  }

  /** Returns the pids of all processes in the group, in this pid namespace. */
  members(): number[] {
    const lines = this.joinFiles.flatMap((file) => readIfExists(file).split('\n'))
    return [...new Set(lines.filter(Boolean).map(Number))].filter((pid) => pid > 0)
  }

  /** The kernel can take a moment to release a group after its last process exited. */
  async remove(): Promise<void> {
    const endsMs = performance.now() + REMOVE_DEADLINE_MS
    for (const folder of this.#all) {
      while (!removeCgroup(folder) && performance.now() < endsMs) await sleep(REMOVE_PAUSE_MS)
    }
  }
}

function removeCgroup(folder: string): boolean {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true }))
      if (entry.isDirectory()) removeCgroup(join(folder, entry.name))
    rmdirSync(folder)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

function writeExisting(path: string, value: number | string): void {
  if (existsSync(path)) writeFileSync(path, String(value))
}

function attempt(action: () => void): void {
  try {
    action()
  } catch {
    // The kernel does not offer this. Reported values do not depend on it.
  }
}

function read(path: string): string {
  return readFileSync(path, 'utf8').trim()
}

function readIfExists(path: string): string {
  try {
    return read(path)
  } catch {
    return ''
  }
}

function readNumber(path: string): number | undefined {
  const text = readIfExists(path)
  return /^\d{1,20}$/.test(text) ? Number(text) : undefined
}

function readField(path: string, name: string): number | undefined {
  const found = readIfExists(path)
    .split('\n')
    .find((line) => line.startsWith(`${name} `))
  return found === undefined ? undefined : Number(found.slice(name.length + 1))
}

function divide(value: number | undefined, by: number): number | undefined {
  return value === undefined ? undefined : Math.round(value / by)
}
