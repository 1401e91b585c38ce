/** Times copies of one large file in turns, and reports them as bytes per time. */
import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { median, type Row, timeProcess } from './measure.ts'

const MIB = 1024 * 1024

/** Undefined when it cannot be measured here. */
export type Rated = readonly number[] | undefined

export async function inTurns(
  rounds: number,
  copy: string,
  works: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<Readonly<Record<string, readonly number[]>>> {
  const times: Record<string, number[]> = {}
  for (let round = 0; round < rounds; round++) {
    for (const [name, work] of Object.entries(works)) {
      // The data that the previous work left to be written must not slow down this one.
      spawnSync('sync')
      const started = performance.now()
      await work()
      times[name] = [...(times[name] ?? []), performance.now() - started]
      rmSync(copy, { force: true })
    }
  }
  return times
}

interface Compared {
  readonly what: string
  readonly bytes: number
  readonly ours: Rated
  readonly against: string
  readonly theirs: Rated
  readonly missing?: string
  readonly command: string
}

/** The figures are bytes per time, so more is better. */
export function rateRow({ what, bytes, ours, against, theirs, missing = '', command }: Compared): Row {
  const rate = (times: readonly number[]) => bytes / 1e3 / median(times)
  const show = (times: readonly number[]) => `${rate(times).toFixed(0)} MB/s`
  return {
    what,
    against,
    ours: show(ours!),
    theirs: theirs === undefined ? missing : show(theirs),
    ratio: theirs && rate(ours!) / rate(theirs),
    bar: undefined,
    command,
  }
}

export function makeFile(path: string, bytes: number): void {
  timeProcess('dd', ['if=/dev/urandom', `of=${path}`, 'bs=1M', `count=${bytes / MIB}`])
}
