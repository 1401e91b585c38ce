/** Between which amounts a sandbox's limits may be chosen. */

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const TIB = 1024 ** 4

export interface Bounds {
  readonly least: number
  readonly most: number
}

/** The least is what the sidecar and one small command need; the most is beyond any machine that this runs on. */
export const LIMIT_BOUNDS = {
  memoryBytes: { least: 128 * MIB, most: 64 * TIB },
  processes: { least: 16, most: 65_536 },
  cpuMillis: { least: 10, most: 1_000_000 },
  diskBytes: { least: 32 * MIB, most: 64 * TIB },
} as const satisfies Record<string, Bounds>

/**
 * What a sandbox may use when nothing was said. The disk has one too, although an ordinary user's is not held to it:
 * the limit report says so by name.
 */
export const DEFAULT_LIMITS = { memoryBytes: 2 * GIB, processes: 512, diskBytes: 4 * GIB } as const
