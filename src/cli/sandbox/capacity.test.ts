import { expect, it } from 'vitest'
import type { CapacityBody } from '../../operator/api/bodies.ts'
import { describeCapacity, nearCapacity } from './capacity.ts'

const GIB = 1024 ** 3
const CAPACITIES: readonly CapacityBody[] = [
  { limit: 'sandboxes', in_use: 3, most: 256 },
  { limit: 'running', in_use: 2, most: 2 },
  { limit: 'memory_bytes', in_use: 4 * GIB, most: 5 * GIB },
  { limit: 'cpu_millis', in_use: 1500, most: 100_000 },
  { limit: 'disk_bytes', in_use: 0, most: 2000 * GIB },
]

it('describes how much of each limit is in use, in the units that people type', () => {
  expect(describeCapacity(CAPACITIES)).toBe(
    '3 of 256 sandboxes, 2 of 2 running, 4 GB of 5 GB memory, 1.5 of 100 cores, 0 B of 2 TB disk',
  )
})

it('returns only the limits that are nearly or fully used', () => {
  expect(nearCapacity(CAPACITIES).map(({ limit }) => limit)).toEqual(['running', 'memory_bytes'])
  expect(nearCapacity([{ limit: 'sandboxes', in_use: 0, most: 1 }])).toEqual([])
})
