/**
 * Compares what boundaries counted with the receipts. Nothing may cross a boundary without a begin receipt, and no
 * receipt may record something that never crossed.
 */
import type { Receipt } from '../../receipts/schema.ts'
import type { BoundaryCounts } from '../boundary/boundary.ts'
import { OPERATIONS } from '../operations.ts'
import { COUNT_CAPABILITY, COUNT_MEASURES, COUNT_OPERATION, parseCounts } from './count-receipts.ts'

export interface BoundaryCheck {
  /** The number of epochs whose counts are recorded. */
  readonly epochs: number
  /** The number of epochs that are not closed yet. */
  readonly open: number
  /** The operations that all boundaries together counted. */
  readonly operations: number
  readonly differ: readonly { readonly sandboxId: string; readonly epoch: string; readonly detail: string }[]
}

type Counted = Exclude<keyof BoundaryCounts, 'bytesIn' | 'bytesOut'>
const OPERATED = ['jobs', 'reads', 'writes', 'forwards', 'looks', 'signals'] as const
const BYTES = { bytesIn: 'out of', bytesOut: 'into' } as const
const NAMED: Readonly<Record<Counted, string>> = {
  jobs: 'job',
  reads: 'read',
  writes: 'write',
  forwards: 'forward',
  looks: 'inspection',
  signals: 'signal',
  connections: 'connection from the sandbox',
}
/** The limit of listed differences. More are not needed to prove that the log is wrong. */
const MAX_LISTED = 100

/** Maps the capability and operation of a receipt to the count that it belongs to. */
const COUNT_OF: ReadonlyMap<string, Counted> = new Map(
  Object.values(OPERATIONS).flatMap(({ capability, operation, counted }) =>
    counted === undefined ? [] : [[`${capability} ${operation}`, counted]],
  ),
)

interface Epoch {
  readonly sandboxId: string
  readonly epoch: string
  /** Operations that began with a receipt, or were sent again with one. */
  readonly begun: Map<Counted, number>
  readonly passed: Map<Counted, number>
  /** The bytes in end receipts of operations that this epoch observed from their start. */
  readonly bytes: { bytesIn: number; bytesOut: number }
  counted: (Partial<BoundaryCounts> & { readonly complete: boolean }) | undefined
  readonly problems: string[]
}

export class BoundaryReconciler {
  readonly #epochs = new Map<string, Epoch>()
  /** A part of a log does not show what came before it. */
  #isWhole: boolean | undefined

  /** Processes one line of the log. The caller passes every line in order; only receipts about sandboxes matter. */
  receipt(line: Buffer, seq: number): void {
    this.#isWhole ??= seq === 0
    if (!line.includes('"sandbox_id":')) return
    let body: Partial<Receipt['body']> | undefined
    try {
      body = (JSON.parse(line.toString()) as Receipt).body
    } catch {
      // The verifier reports lines that are not JSON.
      return
    }
    this.#take(body)
  }

  /** Adds the saved counts of an epoch that is still open in the live log. They must come from the same snapshot. */
  recordCounts(sandboxId: string, epoch: string, counts: string): void {
    const found = this.#epoch(sandboxId, epoch)
    try {
      found.counted ??= { ...parseCounts(counts), complete: false }
    } catch {
      found.problems.push('cannot parse its saved counts')
    }
  }

  finish(): BoundaryCheck {
    const differ: BoundaryCheck['differ'][number][] = []
    let operations = 0
    const epochs = [...this.#epochs.values()]
    for (const found of epochs) {
      const { sandboxId, epoch, counted } = found
      for (const name of OPERATED) operations += counted?.[name] ?? 0
      for (const detail of this.#isWhole === false ? [] : findDifferences(found)) {
        if (differ.length < MAX_LISTED)
          differ.push({ sandboxId, epoch, detail: `sandbox ${sandboxId} ${epoch}: ${detail}` })
      }
    }
    const counted = epochs.filter((found) => found.counted !== undefined).length
    return { epochs: counted, open: epochs.length - counted, operations, differ }
  }

  #take(body: Partial<Receipt['body']> | undefined): void {
    const { links, metadata, phase, capability, operation, status, measures = [] } = body ?? {}
    const [sandboxId, name] = [links?.sandbox_id, metadata?.epoch]
    if (typeof sandboxId !== 'string' || typeof name !== 'string') return
    const found = this.#epoch(sandboxId, name)
    if (capability === COUNT_CAPABILITY && operation === COUNT_OPERATION) {
      if (found.counted !== undefined) found.problems.push('its counts are recorded twice')
      found.counted ??= { ...countsIn(measures), complete: metadata?.complete === true }
      return
    }
    if (capability === 'network.egress') {
      if (phase !== 'end') add(found.begun, 'connections', wholeNumber(metadata?.count))
      return
    }
    const counted = COUNT_OF.get(`${capability} ${operation}`)
    if (counted === undefined || body?.kind !== 'sandbox_action') return
    if (phase === 'begin' || metadata?.restarted === true) add(found.begun, counted, 1)
    if (phase !== 'end') return
    if (status === 'passed') add(found.passed, counted, 1)
    if (metadata?.adopted === true) return
    const { bytesIn = 0, bytesOut = 0 } = countsIn(measures)
    found.bytes.bytesIn += bytesIn
    found.bytes.bytesOut += bytesOut
  }

  #epoch(sandboxId: string, epoch: string): Epoch {
    const key = `${sandboxId} ${epoch}`
    const known = this.#epochs.get(key)
    if (known !== undefined) return known
    const made: Epoch = {
      sandboxId,
      epoch,
      begun: new Map(),
      passed: new Map(),
      bytes: { bytesIn: 0, bytesOut: 0 },
      counted: undefined,
      problems: [],
    }
    this.#epochs.set(key, made)
    return made
  }
}

/**
 * Returns how an epoch's counts differ from its receipts. An operation that began may never have reached the boundary,
 * because the sandbox was gone by then. So the count lies between what passed and what began. Counts that a crash cut
 * short are only a lower bound.
 */
function findDifferences({ counted, begun, passed, bytes, problems }: Epoch): string[] {
  const found = [...new Set(problems)]
  if (counted === undefined) return found
  for (const name of OPERATED) {
    const [opened, receipted, done] = [counted[name] ?? 0, begun.get(name) ?? 0, passed.get(name) ?? 0]
    if (opened > receipted)
      found.push(`the boundary opened ${formatCount(opened, name)}, receipts account for ${receipted}`)
    if (counted.complete && opened < done)
      found.push(`receipts record ${formatCount(done, name)} that passed, the boundary opened ${opened}`)
  }
  if (!counted.complete) return found
  const [taken, refused] = [counted.connections ?? 0, begun.get('connections') ?? 0]
  if (taken > refused)
    found.push(`the boundary accepted ${formatCount(taken, 'connections')}, receipts account for ${refused}`)
  for (const [name, way] of Object.entries(BYTES) as [keyof typeof BYTES, string][]) {
    const crossed = counted[name] ?? 0
    if (bytes[name] > crossed)
      found.push(`receipts record ${bytes[name]} bytes ${way} the sandbox, the boundary passed ${crossed}`)
  }
  return found
}

function countsIn(measures: unknown): Partial<Record<keyof BoundaryCounts, number>> {
  if (!Array.isArray(measures)) return {}
  const named = new Map(
    (measures as Partial<NonNullable<Receipt['body']['measures']>[number]>[])
      .filter((measure) => measure?.source === 'observed')
      .map((measure) => [measure.name, wholeNumber(measure.value)]),
  )
  return Object.fromEntries(
    Object.entries(COUNT_MEASURES).flatMap(([name, measure]) => {
      const value = named.get(measure)
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

function wholeNumber(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0
}

function add(to: Map<Counted, number>, name: Counted, count: number): void {
  to.set(name, (to.get(name) ?? 0) + count)
}

function formatCount(count: number, name: Counted): string {
  if (name === 'connections') return `${count} ${count === 1 ? NAMED[name] : 'connections from the sandbox'}`
  return `${count} ${NAMED[name]}${count === 1 ? '' : 's'}`
}
