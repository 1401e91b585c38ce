/** Decides whether one more sandbox fits. It counts the records in the transaction that would add the sandbox. */
import { CraikError } from '../../errors.ts'
import type { LimitSpec } from '../backend.ts'
import { MAX_SANDBOXES } from './sandbox-record.ts'
import { SANDBOX_STATES, type SandboxState, STATES } from './transitions.ts'

/** The limits for all sandboxes of a home together. */
export interface AdmissionLimits {
  /** Sandboxes in any state. */
  readonly total: number
  /** Sandboxes with an instance: running, paused, or about to run. */
  readonly running: number
  /** The sum over sandboxes with an instance, for those that have a limit of their own. */
  readonly cpuMillis: number
  readonly memoryBytes: number
  /** The sum over all sandboxes, because a stopped sandbox keeps its disk. */
  readonly diskBytes: number
}

export const UNBOUNDED: AdmissionLimits = {
  total: MAX_SANDBOXES,
  running: MAX_SANDBOXES,
  cpuMillis: Number.MAX_SAFE_INTEGER,
  memoryBytes: Number.MAX_SAFE_INTEGER,
  diskBytes: Number.MAX_SAFE_INTEGER,
}

interface Counted {
  readonly name: string
  readonly state: SandboxState
  readonly activeAtMs: number
  readonly limits: Partial<LimitSpec>
}

export interface InUse extends Record<keyof AdmissionLimits, number> {}

/** Includes records that were changed outside Craik, because their sandboxes still use capacity. */
export function inUse(rows: readonly { readonly document: string }[]): InUse {
  return sumUse(rows.map(({ document }) => parseCounted(document)))
}

/** One of the limits, and how much of it is in use. */
export interface Capacity {
  /** The same name as in the details of a refusal. */
  readonly limit: (typeof DETAIL_NAMES)[keyof AdmissionLimits]
  readonly inUse: number
  readonly most: number
}

/** Returns all limits in the order in which they are checked. */
export function capacityOf(
  rows: readonly { readonly document: string }[],
  most: AdmissionLimits,
): readonly Capacity[] {
  const used = inUse(rows)
  return LIMIT_NAMES.map((name) => ({ limit: DETAIL_NAMES[name], inUse: used[name], most: most[name] }))
}

/** Returns whether the sandboxes together use more than a limit allows. */
export function isOverfull(rows: readonly { readonly document: string }[], most: AdmissionLimits): boolean {
  const used = inUse(rows)
  return LIMIT_NAMES.some((limit) => used[limit] > most[limit])
}

/**
 * Throws when the sandbox does not fit. With `resume`, its disk and its place in the total are already counted. A
 * sandbox that requests more than the limit itself can never fit, and its error names the same numbers.
 */
export function requireCapacity(
  rows: readonly { readonly document: string }[],
  request: LimitSpec,
  most: AdmissionLimits,
  what: 'create' | 'resume',
): void {
  const all = rows.map(({ document }) => parseCounted(document))
  const used = sumUse(all)
  const more: InUse = {
    total: what === 'create' ? 1 : 0,
    running: 1,
    cpuMillis: request.cpuMillis ?? 0,
    memoryBytes: request.memoryBytes,
    diskBytes: what === 'create' ? (request.diskBytes ?? 0) : 0,
  }
  for (const limit of LIMIT_NAMES) {
    if (more[limit] === 0 || used[limit] + more[limit] <= most[limit]) continue
    throw new CraikError('limit_reached', messageOf(limit, more[limit], used[limit], most[limit]), {
      hint: hintOf(limit, all),
      details: {
        limit: DETAIL_NAMES[limit],
        asked: more[limit],
        in_use: used[limit],
        most: most[limit],
      },
    })
  }
}

const LIMIT_NAMES = ['total', 'running', 'memoryBytes', 'cpuMillis', 'diskBytes'] as const

const DETAIL_NAMES = {
  total: 'sandboxes',
  running: 'running',
  memoryBytes: 'memory_bytes',
  cpuMillis: 'cpu_millis',
  diskBytes: 'disk_bytes',
} as const satisfies Readonly<Record<keyof AdmissionLimits, string>>

function messageOf(limit: keyof AdmissionLimits, requestCount: number, used: number, most: number): string {
  switch (limit) {
    case 'total':
      return `cannot create another sandbox: ${used} of at most ${most} exist`
    case 'running':
      return `cannot start another sandbox: ${used} of at most ${most} are running`
    case 'memoryBytes':
      return `the running sandboxes may use ${gib(used)} of memory; ${gib(requestCount)} more exceeds the limit of ${gib(most)}`
    case 'cpuMillis':
      return `the running sandboxes may use ${used / 1000} cores; ${requestCount / 1000} more exceeds the limit of ${most / 1000}`
    case 'diskBytes':
      return `the disks of the sandboxes may grow to ${gib(used)}; ${gib(requestCount)} more exceeds the limit of ${gib(most)}`
  }
}

/** The option with which a user requests less. */
const FLAG: Partial<Record<keyof AdmissionLimits, string>> = {
  memoryBytes: ' (--memory)',
  cpuMillis: ' (--cpus)',
  diskBytes: ' (--disk)',
}

/** Suggests the sandbox that was idle for longest. */
function hintOf(limit: keyof AdmissionLimits, all: readonly Counted[]): string {
  const isRetained = limit === 'total' || limit === 'diskBytes'
  const candidates = all.filter(({ state }) =>
    isRetained ? true : state === 'running' || state === 'paused',
  )
  const [oldest] = candidates.toSorted((a, b) => a.activeAtMs - b.activeAtMs)
  if (oldest === undefined)
    return `request less${FLAG[limit] ?? ''}, or raise the limit in config/limits.yaml`
  const verb = isRetained ? 'delete' : 'stop'
  return `${verb} one that you do not need:  craik sandbox ${verb} ${oldest.name}   or raise the limit in config/limits.yaml`
}

function sumUse(all: readonly Counted[]): InUse {
  const withInstance = all.filter(({ state }) => STATES[state].usesCapacity)
  const sum = (of: readonly Counted[], name: keyof LimitSpec) =>
    of.reduce((total, { limits }) => total + amount(limits[name]), 0)
  return {
    total: all.length,
    running: withInstance.length,
    cpuMillis: sum(withInstance, 'cpuMillis'),
    memoryBytes: sum(withInstance, 'memoryBytes'),
    diskBytes: sum(all, 'diskBytes'),
  }
}

function parseCounted(document: string): Counted {
  const record = JSON.parse(document) as {
    readonly name?: unknown
    readonly state?: unknown
    readonly active_at_ms?: unknown
    readonly created_at_ms?: unknown
    readonly spec?: { readonly limits?: Partial<LimitSpec> }
  } | null
  const state = SANDBOX_STATES.find((one) => one === record?.state)
  return {
    name: String(record?.name),
    state: state ?? 'running',
    activeAtMs: amount(record?.active_at_ms) || amount(record?.created_at_ms),
    limits: record?.spec?.limits ?? {},
  }
}

function amount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

function gib(bytes: number): string {
  return `${Math.round((bytes / 1024 ** 3) * 10) / 10} GB`
}
