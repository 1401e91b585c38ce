/** What the sandboxes of a home may have together, and how many places wait for one: by `config/limits.yaml`, or by default. */
import { statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import type { AdmissionLimits } from './lifecycle/admission.ts'
import { MAX_SANDBOXES } from './lifecycle/sandbox-record.ts'

export const LIMITS_FILE = 'limits.yaml'

const GIB = 1024 ** 3
/** Each takes a few dozen megabytes even when nothing happens in it. */
const MOST_RUNNING = 100
/** A limit is a ceiling, and few sandboxes reach theirs at once: together they may be promised so many times what there is. */
const PROMISED = { cpu: 50, memory: 10, disk: 10 } as const

/** Each is a container of the default size that does nothing: a few dozen megabytes. */
const DEFAULT_WARM = 4
const MOST_WARM = 32

const count = z.int().min(1).max(MAX_SANDBOXES)
const amount = z.number().positive().max(1_000_000)

const settings = z.strictObject({
  sandboxes: count.optional(),
  running: count.optional(),
  cpus: amount.optional(),
  memory_gib: amount.optional(),
  disk_gib: amount.optional(),
  warm: z.int().min(0).max(MOST_WARM).optional(),
})

export interface MachineSize {
  readonly cores: number
  readonly memoryBytes: number
  readonly diskBytes: number
}

/** `config` is what the file says; undefined when there is none. */
export function admissionLimits(config: unknown, machine: MachineSize): AdmissionLimits {
  const { sandboxes, running, cpus, memory_gib, disk_gib } = parse(config)
  return {
    total: sandboxes ?? MAX_SANDBOXES,
    running: running ?? MOST_RUNNING,
    cpuMillis: Math.floor((cpus ?? machine.cores * PROMISED.cpu) * 1000),
    memoryBytes: memory_gib === undefined ? machine.memoryBytes * PROMISED.memory : bytes(memory_gib),
    diskBytes: disk_gib === undefined ? machine.diskBytes * PROMISED.disk : bytes(disk_gib),
  }
}

/** How many places may wait for a sandbox at most; 0: none is started before it is asked for. */
export function warmPoolSize(config: unknown): number {
  return parse(config).warm ?? DEFAULT_WARM
}

function parse(config: unknown): z.infer<typeof settings> {
  const parsed = settings.safeParse(config ?? {})
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const where = issue?.path.join('.') || 'the file'
    const what =
      issue?.code === 'unrecognized_keys'
        ? `unknown setting ${issue.keys.join(', ')}; valid settings: ${Object.keys(settings.shape).join(', ')}`
        : `${where}: ${issue?.message}`
    throw new CraikError('invalid_config', `config/${LIMITS_FILE}: ${what}`, {
      hint: 'fix the file, then try again; see docs/how-to/limit-resources.md',
    })
  }
  return parsed.data
}

/** The disk is the one that the home is on, or will be. */
export function thisMachine(home: string): MachineSize {
  return { cores: availableParallelism(), memoryBytes: totalmem(), diskBytes: sizeOfDisk(home) }
}

function sizeOfDisk(path: string): number {
  try {
    const { blocks, bsize } = statfsSync(path)
    return blocks * bsize
  } catch {
    return path === dirname(path) ? Number.MAX_SAFE_INTEGER / PROMISED.disk : sizeOfDisk(dirname(path))
  }
}

function bytes(gib: number): number {
  return Math.floor(gib * GIB)
}
