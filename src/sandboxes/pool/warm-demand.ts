/** Plans the number of warm instances: as many as sandboxes were created recently. */
import type { Shape } from './instance-shape.ts'

/** A sandbox that was created longer ago does not suggest that another one follows. */
export const RECENT_MS = 10 * 60_000

export interface CreatedSandbox {
  readonly shape: Shape
  readonly atMs: number
}

/** Returns one shape for each of the newest sandboxes within `LATELY_MS`, at most `most`. `made` is sorted by time. */
export function planWarmInstances(
  made: readonly CreatedSandbox[],
  nowMs: number,
  most: number,
): readonly Shape[] {
  const lately = made.filter(({ atMs }) => nowMs - atMs < RECENT_MS)
  return lately
    .slice(Math.max(0, lately.length - most))
    .map(({ shape }) => shape)
    .reverse()
}
