/**
 * Reads `config/limits.yaml`, or computes its defaults: the total limits of a home's sandboxes and the size of the warm
 * pool.
 */
import { statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import type { AdmissionLimits } from './lifecycle/admission.ts'
import { MAX_SANDBOXES } from './lifecycle/sandbox-record.ts'

export const LIMITS_FILE = 'limits.yaml'

const GIB = 1024 ** 3
/** Each running sandbox takes a few dozen megabytes even when it does nothing. */
const MOST_RUNNING = 100
/**
 * A limit is a ceiling, and few sandboxes reach theirs at the same time. Craik therefore promises them together this
 * multiple of what the host has.
 */
const OVERCOMMIT = { cpu: 50, memory: 10, disk: 10 } as const

/** Each is an idle container of the default size, which takes a few dozen megabytes. */
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

/** `config` is the parsed content of the file, `undefined` when there is no file. */
export function admissionLimits(config: unknown, machine: MachineSize): AdmissionLimits {
  const { sandboxes, running, cpus, memory_gib, disk_gib } = parse(config)
  return {
    total: sandboxes ?? MAX_SANDBOXES,
    running: running ?? MOST_RUNNING,
    cpuMillis: Math.floor((cpus ?? machine.cores * OVERCOMMIT.cpu) * 1000),
    memoryBytes: memory_gib === undefined ? machine.memoryBytes * OVERCOMMIT.memory : bytes(memory_gib),
    diskBytes: disk_gib === undefined ? machine.diskBytes * OVERCOMMIT.disk : bytes(disk_gib),
  }
}

/** Returns the largest number of warm instances. With 0, Craik starts none in advance. */
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

/** Returns the size of the host. The disk is the one that holds the home, or will hold it. */
export function readHostSize(home: string): MachineSize {
  return { cores: availableParallelism(), memoryBytes: totalmem(), diskBytes: sizeOfDisk(home) }
}

function sizeOfDisk(path: string): number {
  try {
    const { blocks, bsize } = statfsSync(path)
    return blocks * bsize
  } catch {
    return path === dirname(path) ? Number.MAX_SAFE_INTEGER / OVERCOMMIT.disk : sizeOfDisk(dirname(path))
  }
}

function bytes(gib: number): number {
  return Math.floor(gib * GIB)
}
