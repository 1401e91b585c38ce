/** The format of the receipt with a boundary's counts. */
import type { BoundaryCounts } from '../boundary/boundary.ts'

export const COUNT_CAPABILITY = 'sandbox.boundary'
export const COUNT_OPERATION = 'count'

/** Maps each count to the measure in the receipt. */
export const COUNT_MEASURES = {
  jobs: 'jobs',
  reads: 'reads',
  writes: 'writes',
  forwards: 'forwards',
  looks: 'looks',
  signals: 'signals',
  connections: 'connections',
  bytesIn: 'bytes_in',
  bytesOut: 'bytes_out',
} as const satisfies Record<keyof BoundaryCounts, string>

export const COUNT_NAMES = Object.keys(COUNT_MEASURES) as readonly (keyof BoundaryCounts)[]

export const NOTHING_COUNTED = Object.fromEntries(
  COUNT_NAMES.map((name) => [name, 0]),
) as unknown as BoundaryCounts

/** Throws `SyntaxError` when the text is not in Craik's format. */
export function parseCounts(text: string): BoundaryCounts {
  const counts = JSON.parse(text) as Partial<BoundaryCounts> | null
  const isOurs = COUNT_NAMES.every((name) => Number.isSafeInteger(counts?.[name]) && counts![name]! >= 0)
  if (!isOurs) throw new SyntaxError('not the counts of a boundary')
  return counts as BoundaryCounts
}
