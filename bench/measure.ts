/** What a measurement is, and the few ways of taking one. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Row {
  readonly what: string
  readonly against: string
  readonly ours: string
  readonly theirs: string
  /** Ours over theirs, in the unit that `better` reads. */
  readonly ratio: number
  readonly bar: { readonly atLeast: number } | { readonly atMost: number }
  readonly command: string
}

export function holds({ ratio, bar }: Row): boolean {
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

/** Wall time of a process in milliseconds; throws when it fails. */
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
