/**
 * Describes how much of the limits all sandboxes together use: for `craik doctor`, and below a list when a limit is
 * near.
 */
import type { CapacityBody } from '../../operator/api/bodies.ts'
import { formatBytes } from './amounts.ts'

/** The used part of a limit from which Craik mentions it. */
const NEAR = 0.8

const DESCRIBED: Readonly<Record<CapacityBody['limit'], (amount: number) => string>> = {
  sandboxes: (amount) => amount.toLocaleString('en'),
  running: (amount) => amount.toLocaleString('en'),
  memory_bytes: formatBytes,
  cpu_millis: (amount) => (amount / 1000).toLocaleString('en'),
  disk_bytes: formatBytes,
}
const CALLED: Readonly<Record<CapacityBody['limit'], string>> = {
  sandboxes: 'sandboxes',
  running: 'running',
  memory_bytes: 'memory',
  cpu_millis: 'cores',
  disk_bytes: 'disk',
}

/** Formats limits, such as `3 of 256 sandboxes, 2 of 100 running`. */
export function describeCapacity(capacities: readonly CapacityBody[]): string {
  return capacities
    .map(({ limit, in_use, most }) => {
      const amount = DESCRIBED[limit]
      return `${amount(in_use)} of ${amount(most)} ${CALLED[limit]}`
    })
    .join(', ')
}

/** Returns the limits that may not have enough capacity for another sandbox. */
export function nearCapacity(capacities: readonly CapacityBody[]): readonly CapacityBody[] {
  return capacities.filter(({ in_use, most }) => in_use >= NEAR * most)
}
