/** Lists the slowest test files at the end of a run, as a start when the run takes too long. */
import { relative } from 'node:path'
import type { Reporter, TestModule, Vitest } from 'vitest/node'

const SHOWN = 25

export default class SlowestFiles implements Reporter {
  #root = ''

  onInit({ config }: Vitest): void {
    this.#root = config.root
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const timed = modules.map((module) => ({ file: module.moduleId, ms: durationMs(module) }))
    const slowest = timed.toSorted((a, b) => b.ms - a.ms).slice(0, SHOWN)
    const lines = slowest.map(({ file, ms }) => `${seconds(ms).padStart(8)}  ${relative(this.#root, file)}`)
    const allMs = timed.reduce((sum, { ms }) => sum + ms, 0)
    process.stderr.write(
      `\nThe slowest of ${timed.length} files, ${seconds(allMs)} in all:\n${lines.join('\n')}\n`,
    )
  }
}

/** Includes loading, set-up, tests and clean-up. */
function durationMs(module: TestModule): number {
  const { collectDuration, duration, environmentSetupDuration, prepareDuration, setupDuration } =
    module.diagnostic()
  return collectDuration + duration + environmentSetupDuration + prepareDuration + setupDuration
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
