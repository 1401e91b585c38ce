/** How many places wait: as many as sandboxes were made lately. */
import type { Shape } from './instance-shape.ts'

/** A sandbox that was made longer ago is no sign that another one will be. */
export const LATELY_MS = 10 * 60_000

export interface CreatedSandbox {
  readonly shape: Shape
  readonly atMs: number
}

/** One for each of the newest that are not too old, at most so many. `made` is in the order of time. */
export function planWarmInstances(
  made: readonly CreatedSandbox[],
  nowMs: number,
  most: number,
): readonly Shape[] {
  const lately = made.filter(({ atMs }) => nowMs - atMs < LATELY_MS)
  return lately
    .slice(Math.max(0, lately.length - most))
    .map(({ shape }) => shape)
    .reverse()
}
