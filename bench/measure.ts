/** The result of a measurement, and the ways to measure. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Row {
  readonly what: string
  readonly against: string
  readonly ours: string
  readonly theirs: string
  /**
   * The figure that `bar` limits, in most rows `ours` divided by `theirs`. Undefined when the other side cannot be
   * measured here.
   */
  readonly ratio: number | undefined
  /** Undefined when the row is only for information. */
  readonly bar: { readonly atLeast: number } | { readonly atMost: number } | undefined
  readonly command: string
}

/** Returns `undefined` when the row has no limit or no ratio. */
export function isWithinLimit({ ratio, bar }: Row): boolean | undefined {
  if (bar === undefined || ratio === undefined) return undefined
  return 'atLeast' in bar ? ratio >= bar.atLeast : ratio <= bar.atMost
}

export class TemporaryFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'craik-bench-'));
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}

/** Milliseconds: the median, and the time that one sample in a hundred exceeds. */
export interface Spread {
  readonly p50: number
  readonly p99: number
}

export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  return { p50: sorted[Math.floor(sorted.length / 2)]!, p99: sorted[Math.floor(sorted.length * 0.99)]! }
}

export function formatSpread({ p50, p99 }: Spread): string {
  return `${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`
}

/**
 * Times the works in turns, so that other load on the host affects all of them alike. The warm-up rounds do not count.
 */
export async function timeInTurns<Name extends string>(
  rounds: { readonly warm: number; readonly counted: number },
  works: Readonly<Record<Name, () => Promise<unknown>>>,
): Promise<Record<Name, Spread>> {
  const entries = Object.entries(works) as [Name, () => Promise<unknown>][]
  const times = new Map(entries.map(([name]) => [name, [] as number[]]))
  for (let round = -rounds.warm; round < rounds.counted; round++) {
    for (const [name, work] of entries) {
      const started = performance.now()
      await work()
      if (round >= 0) times.get(name)!.push(performance.now() - started)
    }
  }
  return Object.fromEntries([...times].map(([name, values]) => [name, spread(values)])) as Record<
    Name,
    Spread
  >
}

/** Returns the wall time of a process in milliseconds. Throws when the process fails. */
export function timeProcess(
  file: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): number {
  const started = performance.now()
  const { status, stderr } = spawnSync(file, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const elapsed = performance.now() - started
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} exited ${status}: ${stderr}`)
  return elapsed
}
