/** The smallest and largest value of each sandbox limit. */

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const TIB = 1024 ** 4

export interface Bounds {
  readonly least: number
  readonly most: number
}

/** The sidecar and one small command need the minimum. The maximum exceeds every host that Craik runs on. */
export const LIMIT_BOUNDS = {
  memoryBytes: { least: 128 * MIB, most: 64 * TIB },
  processes: { least: 16, most: 65_536 },
  cpuMillis: { least: 10, most: 1_000_000 },
  diskBytes: { least: 32 * MIB, most: 64 * TIB },
} as const satisfies Record<string, Bounds>

const SECOND_MS = 1000
const DAY_MS = 86_400 * SECOND_MS

/** How long a sandbox may be idle, run, or be kept after it stopped. */
export const TIME_BOUNDS = {
  idleMs: { least: 10 * SECOND_MS, most: 30 * DAY_MS },
  lifetimeMs: { least: 60 * SECOND_MS, most: 365 * DAY_MS },
  keepMs: { least: 60 * SECOND_MS, most: 3650 * DAY_MS },
} as const satisfies Record<string, Bounds>

/** How long jobs get to end when their sandbox stops. */
export const GRACE_BOUNDS: Bounds = { least: 0, most: 60 * SECOND_MS }

/**
 * The limits of a sandbox whose request sets none. The disk has a limit too, although Craik cannot enforce it for an
 * ordinary user. The limit report then says so.
 */
export const DEFAULT_LIMITS = { memoryBytes: 2 * GIB, processes: 512, diskBytes: 4 * GIB } as const
