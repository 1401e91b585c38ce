/** Control groups of sandboxes: `craik/<id>` in each hierarchy where Craik may make one, of either version. */
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
/** `freezer` is one of the first version; in the second every group can be frozen. */
const CONTROLLERS: readonly Controller[] = ['memory', 'pids', 'cpu', 'cpuacct', 'freezer']

/** Where groups may be made. */
export interface Cgroups {
  readonly version: 1 | 2 | 'none'
  /** For each controller, the folder in which a sandbox gets a group of its own. */
  readonly parents: Readonly<Partial<Record<Controller, string>>>
}

const PERIOD_US = 100_000
const REMOVE_DEADLINE_MS = 5000
const REMOVE_PAUSE_MS = 20
const FREEZE_DEADLINE_MS = 10_000
const FREEZE_PAUSE_MS = 10

/** What this process may use, found by making a group and removing it again. */
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
  const enabled = enable(delegated, parent)
  const use = CONTROLLERS.filter((controller) => enabled.has(controller))
  return { version: 2, parents: Object.fromEntries(use.map((controller) => [controller, parent])) }
}

/** Where each controller of the first version is mounted, and the second version. */
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

/** Of the second version: the highest group above us that is ours to divide. */
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

/** Hands controllers down to the groups of sandboxes; those that arrive are the ones that hold. */
function enable(delegated: string, parent: string): ReadonlySet<string> {
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

/** The group of one sandbox, as far as there are hierarchies for it. */
export class SandboxCgroup {
  readonly #version: Cgroups['version']
  readonly #folders: Readonly<Partial<Record<Controller, string>>>

  constructor({ version, parents }: Cgroups, id: string) {
    this.#version = version
    this.#folders = Object.fromEntries(
      Object.entries(parents).map(([name, parent]) => [name, join(parent, id)]),
    )
  }

  /** Each once: in the second version all controllers share one. */
  get #all(): string[] {
    return [...new Set(Object.values(this.#folders))]
  }

  /** A process that writes its number to these files, and all that it starts, is in the group. */
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
      // Swap counts too; where the kernel does not count it, there is no such file.
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
    const memoryBytes = numberIn(join(memory, isFirst ? 'memory.usage_in_bytes' : 'memory.current'))
    const processes = numberIn(join(pids, 'pids.current'))
    const kills = field(join(memory, isFirst ? 'memory.oom_control' : 'memory.events'), 'oom_kill')
    const cpuMs = isFirst
      ? divide(numberIn(join(cpuacct, 'cpuacct.usage')), 1e6)
      : divide(field(join(cpu, 'cpu.stat'), 'usage_usec'), 1e3)
    return {
      ...(memoryBytes !== undefined && { memoryBytes }),
      ...(processes !== undefined && { processes }),
      ...(cpuMs !== undefined && { cpuMs }),
      ...(kills !== undefined && { outOfMemoryKills: kills }),
    }
  }

  /** Whether what runs in it can be made to stand still. */
  get canFreeze(): boolean {
    const { path } = this.#freezing('THAWED', '0')
    return path !== undefined && existsSync(path)
  }

  /** Done when everything in it stands still. */
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
    // In the first version it may stay half-way until it is told once more.
    for (;;) {
      attempt(() => writeExisting(path, value))
      if (isReached() || !existsSync(path)) return
      if (performance.now() > endsMs)
        throw new CraikError('timeout', 'could not freeze or thaw the sandbox’s processes')
      await sleep(FREEZE_PAUSE_MS)
    }
  }

  #freezing(first: 'FROZEN' | 'THAWED', second: '0' | '1') {
    if (this.#version === 1) {
      const { freezer } = this.#folders
      const path = freezer && join(freezer, 'freezer.state')
      return { path, value: first, isReached: () => readIfThere(path ?? '') === first }
    }
    const folder = this.#version === 2 ? this.#all[0] : undefined
    const path = folder && join(folder, 'cgroup.freeze')
    const isReached = () => field(join(folder ?? '', 'cgroup.events'), 'frozen') === Number(second)
    return { path, value: second, isReached }
  }

  /** Everything in it, by the numbers of this pid namespace. */
  members(): number[] {
    const lines = this.joinFiles.flatMap((file) => readIfThere(file).split('\n'))
    return [...new Set(lines.filter(Boolean).map(Number))].filter((pid) => pid > 0)
  }

  /** The kernel may take a moment to let go of a group whose last process ended. */
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
    // Not offered here; what is reported does not rest on it.
  }
}

function read(path: string): string {
  return readFileSync(path, 'utf8').trim()
}

function readIfThere(path: string): string {
  try {
    return read(path)
  } catch {
    return ''
  }
}

function numberIn(path: string): number | undefined {
  const text = readIfThere(path)
  return /^\d{1,20}$/.test(text) ? Number(text) : undefined
}

function field(path: string, name: string): number | undefined {
  const found = readIfThere(path)
    .split('\n')
    .find((line) => line.startsWith(`${name} `))
  return found === undefined ? undefined : Number(found.slice(name.length + 1))
}

function divide(value: number | undefined, by: number): number | undefined {
  return value === undefined ? undefined : Math.round(value / by)
}
